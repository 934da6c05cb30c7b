package kernel

import "github.com/edl-go/edl/tensor"

// The convolutions go image by image and group by group through a matrix of patches (im2col) and Gemm, so outputs and
// input gradients of an image do not depend on the batch. workspace holds Conv2DWorkspace elements. x and dx hold
// images input images, out and dout as many output images.

// Conv2D computes the convolution (cross-correlation, as in Fluid's conv2d) of images images with filter. bias has a number for each output
// channel, which is added, and activation is then applied, as in Epilogue; nil stands for none.
func Conv2D[T tensor.Float](s *Conv2DShape, images int, out, x, filter, bias []T, activation func(out, x []T), workspace []T) {
	filters, patch, pixels := s.OutChannels/s.Groups, s.patch(), s.pixels()
	matrix, rest := newPatchMatrix(s, workspace)
	inGroup := s.InChannels / s.Groups * s.InHeight * s.InWidth
	for g := range images * s.Groups {
		group := g % s.Groups
		weights := filter[group*filters*patch:]
		to := out[g*filters*pixels:][:filters*pixels]
		e := Epilogue[T]{ByRow: true, Activation: activation}
		if bias != nil {
			e.Bias = bias[group*filters:][:filters]
		}
		GemmEpilogue(false, false, filters, pixels, patch, 1, weights, patch, matrix.of(x[g*inGroup:], inGroup), pixels, 0, to, pixels, e, rest)
	}
}

// Conv2DInputGrad overwrites dx with the gradient of the input.
func Conv2DInputGrad[T tensor.Float](s *Conv2DShape, images int, dx, filter, dout, workspace []T) {
	filters, patch, pixels := s.OutChannels/s.Groups, s.patch(), s.pixels()
	matrix, rest := newPatchMatrix(s, workspace)
	inGroup := s.InChannels / s.Groups * s.InHeight * s.InWidth
	for g := range images * s.Groups {
		weights, from := filter[g%s.Groups*filters*patch:], dout[g*filters*pixels:]
		to := dx[g*inGroup:][:inGroup]
		if s.isPointwise() {
			Gemm(true, false, patch, pixels, filters, 1, weights, patch, from, pixels, 0, to, pixels, rest)
			continue
		}
		Gemm(true, false, patch, pixels, filters, 1, weights, patch, from, pixels, 0, matrix.columns, pixels, rest)
		matrix.spread(to)
	}
}
