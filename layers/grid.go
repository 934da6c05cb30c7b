package layers

// GridSampler takes pixels of images x [batch, channels, height, width] from the places that grid [batch, height', width', 2] names, as x and y from -1 to 1, and
// interpolates linearly between four pixels. Beyond the border are zeros.
//
// Options: Name. Op: grid_sampler.
func GridSampler(x, grid Variable, opts ...Option) Variable {
	l := start("grid_sampler", opts, nil, x, grid)
	l.image(x)
	return l.result(l.op("grid_sampler", In{"X": {x}, "Grid": {grid}}, nil, "Output"))
}

// AffineGrid makes the grid of an affine map theta [batch, 2, 3] for GridSampler: [batch, height, width, 2].
//
// Options: Name. Op: affine_grid.
func AffineGrid(theta Variable, height, width int64, opts ...Option) Variable {
	l := start("affine_grid", opts, nil, theta)
	return l.result(l.op("affine_grid", In{"Theta": {theta}}, Attrs{"output_shape": []int64{1, 1, height, width}}, "Output"))
}
