package kernel

// OneHot writes rows of width classes: row i is 1 at ids[i] and 0 elsewhere (Fluid's one_hot). out holds len(ids)*classes
// elements; FirstBadID(ids, classes) returned -1.
func OneHot[T Number](out []T, ids []int64, classes int) {
	clear(out)
	for i, id := range ids {
		out[i*classes+int(id)] = 1
	}
}
