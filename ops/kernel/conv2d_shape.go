package kernel

// ConvOutSize returns the extent of a convolution's output along one axis: (in + 2*padding -
// (dilation*(kernel-1)+1))/stride + 1, or 0 when the kernel does not fit. kernel, stride and dilation are at least 1,
// padding at least 0.
func ConvOutSize(in, kernel, stride, padding, dilation int) int {
	room := in + 2*padding - (dilation*(kernel-1) + 1)
	if room < 0 {
		return 0
	}
	return room/stride + 1
}

// Conv2DShape holds the extents of a convolution. An input image is [InChannels, InHeight, InWidth], an output image
// [OutChannels, OutHeight, OutWidth], the filter [OutChannels, InChannels/Groups, KernelHeight, KernelWidth]. Groups
// divides both numbers of channels; Groups equal to InChannels is a depthwise convolution. OutHeight and OutWidth are
// what ConvOutSize gives.
type Conv2DShape struct {
	InChannels, InHeight, InWidth    int
	OutChannels, OutHeight, OutWidth int
	KernelHeight, KernelWidth        int
	StrideHeight, StrideWidth        int
	PaddingHeight, PaddingWidth      int // zeros on each of both sides
	DilationHeight, DilationWidth    int
	Groups                           int
}

// patch returns the number of input elements of one group behind one output element.
func (s *Conv2DShape) patch() int { return s.InChannels / s.Groups * s.KernelHeight * s.KernelWidth }

// pixels returns the number of places of an output channel.
func (s *Conv2DShape) pixels() int { return s.OutHeight * s.OutWidth }

// isPointwise reports whether the matrix of patches is the image itself.
func (s *Conv2DShape) isPointwise() bool {
	return s.KernelHeight == 1 && s.KernelWidth == 1 && s.StrideHeight == 1 && s.StrideWidth == 1 &&
		s.PaddingHeight == 0 && s.PaddingWidth == 0
}

// Conv2DWorkspace returns the workspace length of the three convolution functions. It does not depend on the number of
// images.
func Conv2DWorkspace(s *Conv2DShape) int {
	filters, patch, pixels := s.OutChannels/s.Groups, s.patch(), s.pixels()
	return s.OutChannels*patch + patch*pixels + s.paddedLength() + 2*patchSlack + max(
		GemmWorkspace(filters, pixels, patch),
		GemmWorkspace(patch, pixels, filters),
		GemmWorkspace(filters, patch, pixels),
		GemmWorkspace(patch, filters, pixels))
}
