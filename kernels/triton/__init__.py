"""Place of the Triton kernels for GPUs; `choose_kernels` falls back to the reference kernels until they are here."""
