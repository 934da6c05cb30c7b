package layers

// UpscaleInTrain divides what dropout keeps by the share that it keeps, and passes values on unchanged when testing. By
// default dropout multiplies by that share when testing.
func UpscaleInTrain() Option { return Option{"UpscaleInTrain", func(s *settings) { s.upscale = true }} }

// Dropout sets each element to 0 with a probability. Which ones follows from the model's seed, the op, the step and
// the position in the global batch, so a batch split over machines loses the same elements.
//
// Options: UpscaleInTrain, IsTest, Name. Op: dropout.
func Dropout(x Variable, probability float64, opts ...Option) Variable {
	l := start("dropout", opts, []string{"UpscaleInTrain", "IsTest"}, x)
	if l.failed {
		return l.fail()
	}
	implementation := "downgrade_in_infer"
	if l.upscale {
		implementation = "upscale_in_train"
	}
	out := l.multi("dropout", In{"X": {x}}, Attrs{"dropout_prob": probability, "is_test": l.isTest, "seed": l.model.seed, "fix_seed": true,
		"dropout_implementation": implementation}, "Out", "Mask")
	return l.result(out[0])
}
