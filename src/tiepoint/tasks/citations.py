# SPDX-License-Identifier: BSD-3-Clause
"""BibTeX entries of the works that tasks come from."""

from __future__ import annotations

HPATCHES = """@inproceedings{balntas2017hpatches,
  author    = {Vassileios Balntas and Karel Lenc and Andrea Vedaldi and Krystian Mikolajczyk},
  title     = {{HPatches}: A Benchmark and Evaluation of Handcrafted and Learned Local Descriptors},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2017}
}"""

BOJANIC = """@inproceedings{bartol2020benchmark,
  author    = {Kristijan Bartol and David Bojani{\\'c} and Tomislav Pribani{\\'c} and
               Tomislav Petkovi{\\'c} and Yago {Diez Donoso} and Joaquim {Salvi Mas}},
  title     = {On the Comparison of Classic and Deep Keypoint Detector and Descriptor Methods},
  booktitle = {International Symposium on Image and Signal Processing and Analysis (ISPA)},
  year      = {2019},
  note      = {arXiv:2007.10000}
}"""

WORKBENCH = """@misc{sossi2026workbench,
  author = {F. Sossi},
  title  = {{DescriptorWorkbench}},
  year   = {2026},
  note   = {Software}
}"""

TSS = """@inproceedings{taniai2016joint,
  author    = {Tatsunori Taniai and Sudipta N. Sinha and Yoichi Sato},
  title     = {Joint Recovery of Dense Correspondence and Cosegmentation in Two Images},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  pages     = {4246--4255},
  year      = {2016}
}"""

PROPOSAL_FLOW = """@inproceedings{ham2016proposal,
  author    = {Bumsub Ham and Minsu Cho and Cordelia Schmid and Jean Ponce},
  title     = {Proposal Flow},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2016}
}"""
