# SPDX-License-Identifier: BSD-3-Clause
"""Who to cite for a task."""

from __future__ import annotations

from collections.abc import Iterable

_BIBTEX = {
    "balntas2017hpatches": """@inproceedings{balntas2017hpatches,
  author    = {Vassileios Balntas and Karel Lenc and Andrea Vedaldi and Krystian Mikolajczyk},
  title     = {{HPatches}: A Benchmark and Evaluation of Handcrafted and Learned Local Descriptors},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2017}
}""",
    "bartol2020benchmark": """@inproceedings{bartol2020benchmark,
  author    = {Kristijan Bartol and David Bojani{\\'c} and Tomislav Pribani{\\'c} and
               Tomislav Petkovi{\\'c} and Yago {Diez Donoso} and Joaquim {Salvi Mas}},
  title     = {On the Comparison of Classic and Deep Keypoint Detector and Descriptor Methods},
  booktitle = {International Symposium on Image and Signal Processing and Analysis (ISPA)},
  year      = {2019},
  note      = {arXiv:2007.10000}
}""",
    "sossi2026workbench": """@misc{sossi2026workbench,
  author = {F. Sossi},
  title  = {{DescriptorWorkbench}},
  year   = {2026},
  note   = {Software}
}""",
    "taniai2016joint": """@inproceedings{taniai2016joint,
  author    = {Tatsunori Taniai and Sudipta N. Sinha and Yoichi Sato},
  title     = {Joint Recovery of Dense Correspondence and Cosegmentation in Two Images},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  pages     = {4246--4255},
  year      = {2016}
}""",
    "ham2016proposal": """@inproceedings{ham2016proposal,
  author    = {Bumsub Ham and Minsu Cho and Cordelia Schmid and Jean Ponce},
  title     = {Proposal Flow},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2016}
}""",
}

_OF_TASK = {
    "hpatches-v1/": ("balntas2017hpatches",),
    "hpatches/": ("balntas2017hpatches",),
    "keypoints/": ("balntas2017hpatches", "bartol2020benchmark", "sossi2026workbench"),
    "tss": ("taniai2016joint",),
    "dense/pck": ("ham2016proposal",),
    "dense/flow": (),
}


def bibtex(tasks: Iterable[str]) -> str:
    """BibTeX entries of the tasks used, each once.

    >>> bibtex(["tss", "tss"]).count("@inproceedings")
    1
    """
    keys: dict[str, None] = {}
    for task in sorted(set(tasks)):
        for prefix, cited in _OF_TASK.items():
            if task.startswith(prefix):
                keys.update(dict.fromkeys(cited))
    return "\n\n".join(_BIBTEX[k] for k in keys)
