"""Images of equal content: what is a copy, what is shared, what is identical."""

from __future__ import annotations

from pathlib import Path

from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.datasets.validation.image_copies import find_image_copies


def pair(root: Path, scene: str, first: str, second: str, dataset: str = "") -> ImagePair:
    """A pair whose files contain the last letter of their names."""
    files = [root / scene / name for name in (first, second)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(file.name[-1])
    return ImagePair(f"{scene}/{first}-{second}", scene, dataset, files[0], files[1])


def test_find_copies_different_images_none(tmp_path: Path) -> None:
    pairs = [
        pair(tmp_path, "one", "a", "b"),
        pair(tmp_path, "one", "a", "c"),
        pair(tmp_path, "two", "d", "e"),
    ]
    assert find_image_copies(pairs) == ((), ())


def test_find_copies_scene_under_other_name_warns_once(tmp_path: Path) -> None:
    pairs = [pair(tmp_path, s, x, y) for s in ("one", "two", "three") for x, y in (("a", "b"), ("a", "c"))]
    (warning,) = find_image_copies(pairs).warnings
    assert warning.startswith("2 scenes are copies (two of one, three of one), so ")


def test_find_copies_one_shared_image_warns_or_is_published(tmp_path: Path) -> None:
    shared = [pair(tmp_path, "one", "a", "b"), pair(tmp_path, "two", "a", "c")]
    (warning,) = find_image_copies(shared).warnings
    assert warning.startswith("1 image has several names (one/a = two/a): ")
    published = [pair(tmp_path, "one", "a", "b", "wxbs"), pair(tmp_path, "two", "a", "c", "wxbs")]
    assert find_image_copies(published) == ((), ("1 image has several names (one/a = two/a), as published",))


def test_find_copies_same_file_in_two_scenes_is_no_copy(tmp_path: Path) -> None:
    first = pair(tmp_path, "one", "a", "b")
    again = ImagePair("again", "two", image0=first.image1, image1=first.image0)
    assert find_image_copies([first, again]) == ((), ())


def test_find_copies_identical_images_warns_unless_turned(tmp_path: Path) -> None:
    (warning,) = find_image_copies([pair(tmp_path, "one", "a", "2a")]).warnings
    assert warning.startswith("1 pair has two identical images (one/a-2a), so ")
    file = tmp_path / "one" / "a"
    assert find_image_copies([ImagePair("turned", "one", image0=file, image1=file, turns=(0, 1))]) == ((), ())
