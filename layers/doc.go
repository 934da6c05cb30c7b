// Package layers is the language in which a user writes a model: functions that append forward ops to a program.
//
//	m := layers.NewModel()
//	x := layers.Data(m, "x", layers.Dims(13))
//	y := layers.Data(m, "y", layers.Dims(1))
//	prediction := layers.FC(x, 1)
//	loss := layers.Mean(layers.SquareErrorCost(prediction, y))
//	optimizer.SGD(0.01).Minimize(loss)
//	p, err := m.Program()
//
// A Model holds the program under construction and its startup program; a Variable is a value that the program will
// compute. A layer takes variables and options, appends one or more ops and returns the variables that they
// write. Names follow Fluid: the first FC is fc_0, its parameters are fc_0.w_0 and fc_0.b_0, its intermediate results
// fc_0.tmp_0, and so on, so the same calls give the same program in every process.
//
// A model is built without error checks between the lines. Each mistake is noted with the line of user code that made
// it; the Variable that could not be built is poisoned, layers on it do nothing, and so each mistake is
// reported once. Model.Program returns all of them together.
//
// What no layer offers is at hand through Op, which appends any registered op. A Model is not safe for concurrent use.
package layers
