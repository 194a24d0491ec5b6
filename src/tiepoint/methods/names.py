# SPDX-License-Identifier: BSD-3-Clause
"""Methods: the things under test. `METHODS` knows their names, `resolve` makes them ready to run."""

from __future__ import annotations

from .registry import FAMILIES, MethodRegistry

METHODS = MethodRegistry("method", group="tiepoint.methods")

_OWN = "tiepoint.methods"
_add = METHODS.add

_P = f"{_OWN}.patches"
_KEYPOINTS = f"{_OWN}.keypoints"

_add("constant", f"{_P}.canaries:Constant", "canary: the same for every patch", family="patches")
_add("random", f"{_P}.canaries:Random", "canary: noise, seeded by the patch-image", family="patches")
_add("oracle", f"{_P}.canaries:Oracle", "canary: knows the answer", family="patches")
_add(
    "meanstd",
    f"{_P}.intensity:MeanStd",
    "mean and standard deviation of the patch",
    family="patches",
)
_add("resize", f"{_P}.intensity:Resize", "z-scored patch at 4 x 4 (v1: 6 x 6)", family="patches")
_add("pixels", f"{_P}.intensity:Pixels", "z-scored raw patch", family="patches")
_add("vlfeat-sift", f"{_P}.vlfeat_sift:VLFeatSift", "SIFT as VLFeat computes it", family="patches")

_CV = f"{_P}.opencv"
_add("sift", f"{_CV}:Sift", "SIFT of OpenCV", family="patches", needs="opencv")
_add("rootsift", f"{_CV}:RootSift", "square root of l1-normalised SIFT", family="patches", needs="opencv")
_add("orb", f"{_CV}_binary:Orb", "rotated BRIEF, 256 bits, upright", family="patches", needs="opencv")
_add("brief", f"{_CV}_binary:Brief", "256 intensity comparisons", family="patches", needs="opencv")
_add("brisk", f"{_CV}_binary:Brisk", "512 comparisons on rings, upright", family="patches", needs="opencv")
_add("freak", f"{_CV}_binary:Freak", "512 comparisons on a retina, upright", family="patches", needs="opencv")
_add("latch", f"{_CV}_binary:Latch", "256 comparisons of patch triplets", family="patches", needs="opencv")
_add("akaze", f"{_CV}_binary:Akaze", "M-LDB in a nonlinear scale space", family="patches", needs="opencv")
_add("daisy", f"{_CV}_trained:Daisy", "orientation histograms on rings", family="patches", needs="opencv")
_add("vgg", f"{_CV}_trained:Vgg", "learned pooling and projection, 120-d", family="patches", needs="opencv")
_add("boostdesc", f"{_CV}_trained:BoostDesc", "BinBoost, 256 boosted bits", family="patches", needs="opencv")
_add("beblid", f"{_CV}_trained:Beblid", "512 boosted box comparisons", family="patches", needs="opencv")
_add(
    "teblid", f"{_CV}_trained:Teblid", "256 triplet-trained box comparisons", family="patches", needs="opencv"
)

_NET = f"{_OWN}.networks"
_add(
    "files",
    f"{_P}.files:DescriptorFiles",
    "files:DIR, what another program wrote",
    family="patches",
)
_add("onnx", f"{_NET}.onnx:Onnx", "onnx:FILE, a patch network", family="patches", needs="onnx")
_add("torchscript", f"{_NET}.torchscript:TorchScript", "torchscript:FILE", family="patches", needs="learned")
_add("kornia", f"{_NET}.kornia:Kornia", "kornia:NAME?weights=FILE", family="patches", needs="learned")

_D = f"{_KEYPOINTS}.detect"


def _detector(name: str, target: str, summary: str, needs: str | None = "opencv") -> None:
    _add(name, f"{_D}.{target}", summary, family="detectors", needs=needs)


_detector("sift", "opencv:Sift", "differences of Gaussians, with orientations")
_detector("orb", "opencv:Orb", "FAST in a pyramid, Harris score")
_detector("akaze", "opencv:Akaze", "nonlinear scale space, fast")
_detector("kaze", "opencv:Kaze", "nonlinear scale space")
_detector("brisk", "opencv:Brisk", "AGAST in a scale space")
_detector("fast", "opencv:Fast", "segment-test corners, one scale")
_detector("agast", "opencv:Agast", "segment-test corners, one scale")
_detector("gftt", "opencv:Gftt", "smaller eigenvalue, one scale")
_detector("mser", "opencv:Mser", "maximally stable regions")
_detector("surf", "surf:Surf", "fast Hessian on an integral image", None)
_detector("harris", "harris:Harris", "Harris corners, scale by the Laplacian", None)
_detector("grid", "plain:Grid", "a regular grid", None)
_detector("random", "plain:Random", "random points, seeded by the image", None)
_detector("keynet", "keynet:KeyNet", "keynet?weights=FILE, Key.Net through kornia", "learned")
_detector("files", "files:KeypointFiles", "files:DIR, keypoint CSVs", None)
_detector("set", "files:KeypointSetPlaces", "set:NAME, a stored keypoint set", None)
_add(
    "xfeat",
    f"{_KEYPOINTS}.xfeat:Detector",
    "xfeat?weights=FILE, reliable cells",
    family="detectors",
    needs="onnx",
)

_K = f"{_KEYPOINTS}.describe"


def _descriptor(name: str, target: str, summary: str, needs: str | None = "opencv") -> None:
    _add(name, f"{_K}.{target}", summary, family="keypoints", needs=needs)


_descriptor("constant", "canaries:Constant", "canary: the same at every keypoint", None)
_descriptor("random", "canaries:Random", "canary: noise, seeded by the image", None)
_descriptor("oracle", "canaries:Oracle", "canary: oracle@set:NAME, knows projected points", None)
_descriptor("sift", "sift:Sift", "SIFT of OpenCV, level by size")
_descriptor("rootsift", "sift:RootSift", "square root of l1-normalised SIFT")
_descriptor("rgbsift", "sift:RgbSift", "SIFT of each colour channel, 384-d")
_descriptor("rgbsift_channel_avg", "sift:RgbSiftChannelAverage", "mean of the channels of rgbsift")
_descriptor("orb", "opencv:Orb", "rotated BRIEF, 256 bits")
_descriptor("brief", "opencv:Brief", "256 intensity comparisons")
_descriptor("brisk", "opencv:Brisk", "512 comparisons on rings")
_descriptor("freak", "opencv:Freak", "512 comparisons on a retina")
_descriptor("latch", "opencv:Latch", "256 comparisons of patch triplets")
_descriptor("daisy", "opencv:Daisy", "orientation histograms on rings")
_descriptor("vgg", "opencv:Vgg", "learned pooling and projection, 120-d")
_descriptor("boostdesc", "opencv:BoostDesc", "BinBoost, 256 boosted bits")
_descriptor("beblid", "opencv:Beblid", "512 boosted box comparisons")
_descriptor("teblid", "opencv:Teblid", "256 triplet-trained box comparisons")
_descriptor("akaze", "kaze:Akaze", "M-LDB in a nonlinear scale space")
_descriptor("kaze", "kaze:Kaze", "M-SURF in a nonlinear scale space")
_descriptor("surf", "surf:Surf", "Haar responses, 64-d or extended 128-d", None)
_descriptor("honc", "honc:Honc", "histograms of normalised colours, 128-d", None)
_descriptor("patch", "patches:PatchMethod", "patch:NAME, a patch descriptor on squares", None)
_descriptor("kornia", "patches:KorniaNetwork", "kornia:NAME?weights=FILE, on squares", "learned")
_descriptor("onnx", "patches:OnnxNetwork", "onnx:FILE, a patch network on squares", "onnx")
_descriptor("torchscript", "patches:TorchScriptNetwork", "torchscript:FILE, on squares", "learned")
_add(
    "xfeat",
    f"{_KEYPOINTS}.xfeat:Descriptor",
    "xfeat?weights=FILE, dense maps",
    family="keypoints",
    needs="onnx",
)
_add("files", f"{_D}.files:FeatureFiles", "files:DIR, keypoints and descriptors", family="keypoints")
for _name, _base in (("dspsift", "sift"), ("dsprgbsift", "rgbsift"), ("dsphonc", "honc")):
    _summary = f"{_base} pooled over sizes of the keypoint"
    _add(_name, f"{_KEYPOINTS}.pooling:DomainSizePooling", _summary, family="keypoints", needs="opencv")
_add(
    "dsp",
    f"{_KEYPOINTS}.pooling:DomainSizePooling",
    "dsp:DESCRIPTOR, pooled over sizes",
    family="keypoints",
)
_add("fuse", f"{_KEYPOINTS}.fusion:Fusion", "fuse:A,B: several descriptors as one", family="keypoints")

_DENSE = f"{_OWN}.dense"
_add("zero", f"{_DENSE}.zero:Zero", "canary: nothing moves", family="dense")
_add("files", f"{_DENSE}.files:DenseFiles", "files:DIR, flows and masks in the TSS layout", family="dense")
_add(
    "dense-sift",
    f"{_DENSE}.sift:DenseSift",
    "coarse-to-fine dense SIFT, masks by consistency",
    family="dense",
)
_add("homography", f"{_DENSE}.homography:Homography", "SIFT + MAGSAC", family="dense", needs="opencv")
_add("sparse", f"{_DENSE}.sparse:Sparse", "matched keypoints, interpolated", family="dense", needs="opencv")
_add("dis", f"{_DENSE}.opencv:Dis", "dense inverse search flow", family="dense", needs="opencv")
_add("farneback", f"{_DENSE}.opencv:Farneback", "polynomial expansion flow", family="dense", needs="opencv")
_add("tvl1", f"{_DENSE}.opencv:TVL1", "dual TV-L1 flow", family="dense", needs="opencv")
_add("deepflow", f"{_DENSE}.opencv:DeepFlow", "DeepFlow without matches", family="dense", needs="opencv")
_add("pcaflow", f"{_DENSE}.opencv:PCAFlow", "PCA-Flow without a prior", family="dense", needs="opencv")
_add("rlof", f"{_DENSE}.opencv:Rlof", "robust local flow, interpolated", family="dense", needs="opencv")
_add(
    "sparse-to-dense",
    f"{_DENSE}.opencv:SparseToDense",
    "Lucas-Kanade on a grid",
    family="dense",
    needs="opencv",
)

__all__ = ["FAMILIES", "METHODS", "MethodRegistry"]
