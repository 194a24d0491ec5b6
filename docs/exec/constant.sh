#!/bin/sh
# A program for tiepoint: the same descriptor for every patch, as the built-in method `constant`.
dimension=128

member() { # member NAME: the value of a JSON member of $line, a number or a text without quotes and escapes
    printf '%s\n' "$line" | sed -n 's/.*"'"$1"'": "\{0,1\}\([^",}]*\).*/\1/p'
}

IFS= read -r line
folder=$(member folder)
i=0
while [ $i -lt $dimension ]; do
    printf '\0\0\200\077' # 1.0 as a 32-bit number
    i=$((i + 1))
done > "$folder/row"
echo '{"protocol": 1, "families": ["patches"], "name": "constant-sh"}'

while IFS= read -r line; do
    id=$(member id)
    count=$(member count)
    out="$folder/$id-out.npy"
    head="{'descr': '<f4', 'fortran_order': False, 'shape': ($count, $dimension)}"
    {
        printf '\223NUMPY\001\000\166\000%-117s\n' "$head" # version 1.0, a header of 118 bytes
        rows=
        while [ "$count" -gt 0 ]; do
            rows="$rows $folder/row"
            count=$((count - 1))
        done
        [ -z "$rows" ] || cat $rows
    } > "$out"
    printf '{"id": %s, "descriptors": "%s"}\n' "$id" "$out"
done
