package layers

// ParamAttr says how a layer creates one of its parameters. The zero value leaves everything to the layer.
type ParamAttr struct {
	// Name of the parameter. Two layers that name the same parameter share it; the settings of the first one hold.
	Name string
	// Initializer gives the initial value; nil is the default of the layer.
	Initializer Initializer
	// Regularizer overrides that of the optimizer.
	Regularizer Regularizer
	// LearningRate multiplies the rate of the optimizer; 0 means 1. To keep a parameter as it is, set Frozen.
	LearningRate float64
	// Frozen parameters are saved with the others but not trained.
	Frozen bool
}
