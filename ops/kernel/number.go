package kernel

// Number lists the element types that arithmetic and order are defined for.
type Number interface {
	int32 | int64 | float32 | float64
}
