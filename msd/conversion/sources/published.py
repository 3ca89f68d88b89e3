"""Published weights that msd recognises by their SHA-256."""

from __future__ import annotations

PUBLISHED = {
    "985002e68704e1c5c3549de332218e99c5b9b745db7171d5f31fcd9a6089f25b": "keras-cv's text_encoder_v2_1.h5",
    "c31730e91111f98fe0e2dbde4475d381b5287ebb9672b1821796146a25c5132d": "keras-cv's diffusion_model_v2_1.h5",
    "4789e63e07c0e54d6a34a29b45ce81ece27060c499a709d556c7755b42bb0dc4": "keras-cv's kcv_encoder.h5",
    "8799ff9763de13d7f30a683d653018e114ed24a6a819667da4f5ee10f9e805fe": "keras-cv's kcv_diffusion_model.h5",
    "ad350a65cc8bc4a80c8103367e039a3329b4231c2469a1093869a345f55b1962": "keras-cv's kcv_decoder.h5",
    "c60fb220a40d090e0f86a6ab4c312d113e115c87c40ff75d11ffcf380aab7ebb": "keras-cv's vae_encoder.h5",
}
"""The files that keras-cv 0.9 downloads: Stable Diffusion 2.1 base, 1.4, and the autoencoder of both."""
