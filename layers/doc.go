// Package layers is the language for models: functions that append forward ops to a program.
//
//	m := layers.NewModel()
//	x := layers.Data(m, "x", layers.Dims(13))
//	y := layers.Data(m, "y", layers.Dims(1))
//	prediction := layers.FC(x, 1)
//	loss := layers.Mean(layers.SquareErrorCost(prediction, y))
//	optimizer.SGD(0.01).Minimize(loss)
//	p, err := m.Program()
//
// A Model holds a program under construction and its startup program. A Variable is a value that the program will compute. A layer takes variables
// and options, appends one or more ops, and returns the variables that they write. Names follow Fluid: the first FC is fc_0, its parameters are
// fc_0.w_0 and fc_0.b_0, its intermediate results fc_0.tmp_0 and so on. So the same calls give the same program in every process.
//
// Layers return no errors. The model notes each mistake with the line of user code that made it. The result of a mistake is a poisoned Variable.
// Layers on a poisoned variable do nothing, so each mistake is reported once. Model.Program returns all mistakes together.
//
// Op appends any registered op, also one without a layer. A Model is not safe for concurrent use.
//
// Files in reading order: model.go (Model, Variable), layer.go (how a layer builds), op.go, option.go, parameter.go (parameters, initializers,
// regularizers), then the layers: data.go, nn.go, conv.go, math.go, activation.go, shape.go, loss.go, sequence.go, control.go.
package layers
