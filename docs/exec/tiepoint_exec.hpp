// SPDX-License-Identifier: BSD-3-Clause
// Methods for tiepoint in C++17, without dependencies: write a function and call tiepoint::serve.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tiepoint {

/// An array of a .npy file. `type` is NumPy's: "|u1" (bytes), "<f4", "<f8", "|b1" …; the bytes are in C order.
struct Array {
    std::string type;
    std::vector<std::size_t> shape;
    std::vector<char> bytes;

    std::size_t size() const {
        std::size_t n = 1;
        for (auto side : shape) n *= side;
        return n;
    }
    template <class T> const T* data() const { return reinterpret_cast<const T*>(bytes.data()); }
    template <class T> T* data() { return reinterpret_cast<T*>(bytes.data()); }
};

inline Array zeros(const std::string& type, const std::vector<std::size_t>& shape) {
    Array out{type, shape, {}};
    out.bytes.assign(out.size() * std::strtoul(type.c_str() + 2, nullptr, 10), 0);
    return out;
}

inline Array read_npy(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    char start[10];
    if (!file.read(start, 10) || std::memcmp(start, "\x93NUMPY", 6) != 0) throw std::runtime_error(path + " is not .npy");
    std::size_t length = static_cast<unsigned char>(start[8]) + 256u * static_cast<unsigned char>(start[9]);
    std::string head(length, ' ');
    file.read(&head[0], static_cast<std::streamsize>(length));
    Array out;
    std::size_t at = head.find("'descr'"), quote = head.find('\'', head.find(':', at));
    out.type = head.substr(quote + 1, head.find('\'', quote + 1) - quote - 1);
    if (head.find("'fortran_order': True") != std::string::npos) throw std::runtime_error(path + " is in Fortran order");
    at = head.find('(', head.find("'shape'"));
    for (const char* c = head.c_str() + at; *c != ')'; ++c)
        if (*c >= '0' && *c <= '9') {
            char* end;
            out.shape.push_back(std::strtoull(c, &end, 10));
            c = end - 1;
        }
    out.bytes = zeros(out.type, out.shape).bytes;
    if (!file.read(out.bytes.data(), static_cast<std::streamsize>(out.bytes.size()))) throw std::runtime_error(path + " is truncated");
    return out;
}

inline void write_npy(const std::string& path, const Array& array) {
    std::string head = "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
    for (auto side : array.shape) head += std::to_string(side) + ", ";
    head += ")}";
    head.append(64 - (10 + head.size() + 1) % 64, ' ');
    head += '\n';
    std::ofstream file(path, std::ios::binary);
    const char start[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(head.size() & 255), static_cast<char>(head.size() >> 8)};
    file.write(start, 10).write(head.data(), static_cast<std::streamsize>(head.size()));
    file.write(array.bytes.data(), static_cast<std::streamsize>(array.bytes.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// The members of a flat JSON object as text. Texts are unescaped, except \u above 127, which tiepoint writes in names only.
inline std::map<std::string, std::string> read_json(const std::string& line) {
    std::map<std::string, std::string> out;
    std::size_t at = 0;
    auto text = [&] {
        std::string found;
        for (++at; at < line.size() && line[at] != '"'; ++at) {
            if (line[at] != '\\') { found += line[at]; continue; }
            char c = line[++at];
            if (c == 'u') {
                auto code = std::strtoul(line.substr(at + 1, 4).c_str(), nullptr, 16);
                found += code < 128 ? static_cast<char>(code) : '?';
                at += 4;
            } else found += c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        ++at;
        return found;
    };
    while ((at = line.find('"', at)) != std::string::npos) {
        std::string key = text();
        at = line.find_first_not_of(": ", at);
        if (at == std::string::npos) break;
        if (line[at] == '"') { out[key] = text(); continue; }
        std::size_t end = line.find_first_of(",}", at);
        out[key] = line.substr(at, end - at);
        at = end;
    }
    return out;
}

inline std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 32) { out += ' '; continue; }
        out += c;
    }
    return out + '"';
}

using Arrays = std::map<std::string, Array>;
using Request = std::map<std::string, std::string>;

/// Answer requests until standard input ends. `greeting` is a JSON object; `answer` gets the members of a request
/// and its arrays ("patches", "image", "image1", …) and returns the arrays of the answer ("descriptors", …).
inline int serve(const std::string& greeting, const std::function<Arrays(const Request&, const Arrays&)>& answer) {
    std::string line;
    if (!std::getline(std::cin, line)) return 1;
    const std::string folder = read_json(line)["folder"];
    std::cout << greeting << std::endl;
    while (std::getline(std::cin, line)) {
        Request request = read_json(line);
        const std::string id = request["id"];
        std::string out = "{\"id\": " + id;
        try {
            Arrays given;
            for (const char* name : {"patches", "image", "image1", "image2", "points"})
                if (request.count(name)) given[name] = read_npy(request[name]);
            for (const auto& [name, array] : answer(request, given)) {
                const std::string path = folder + "/" + id + "-out-" + name + ".npy";
                write_npy(path, array);
                out += ", " + quoted(name) + ": " + quoted(path);
            }
        } catch (const std::exception& e) {
            out = "{\"id\": " + id + ", \"error\": " + quoted(e.what());
        }
        std::cout << out << "}" << std::endl;
    }
    return 0;
}

}  // namespace tiepoint
