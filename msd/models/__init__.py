"""The networks of a Stable Diffusion as Keras models, and the configurations they are made from."""
