"""A model of every kind of call, whose networks are recorded: what each pipeline must give them.

Two text encoders with tokenizers of their own, of which one also gives a vector; sinusoids of sizes; an image
encoder whose moments are sampled; a second network of every step, with several outputs; a mask and latents
joined to the denoiser's input; a decoder for previews.
"""
