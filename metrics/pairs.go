package metrics

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A pair is a prediction and its label, as an op of a loss names them.
type pair struct {
	prediction, label string
	is                input
	columns           int64
}

// lossPairs says where the pairs are in ops whose inputs are both.
var lossPairs = map[string]struct {
	prediction, label string
	is                input
}{
	"cross_entropy":                     {"X", "Label", distribution},
	"cross_entropy2":                    {"X", "Label", distribution},
	"softmax_with_cross_entropy":        {"Logits", "Label", distribution},
	"log_loss":                          {"Predicted", "Labels", probabilities},
	"bce_loss":                          {"X", "Label", probabilities},
	"auc":                               {"Predict", "Label", probabilities},
	"sigmoid_cross_entropy_with_logits": {"X", "Label", scores},
	"huber_loss":                        {"X", "Y", numbers},
	"smooth_l1_loss":                    {"X", "Y", numbers},
	"elementwise_sub":                   {"X", "Y", numbers},
}

// pairsOf returns the predictions of a program with their labels, each once, in the order of its ops.
func pairsOf(p *program.Program) []pair {
	var pairs []pair
	block := p.Global()
	made := map[string]*program.Op{}
	for _, op := range block.Ops {
		of, ok := lossPairs[op.Type]
		soft, _ := op.Bool("soft_label")
		if ok && !soft {
			found := pair{prediction: op.In(of.prediction), label: uncast(block, made, op.In(of.label)), is: of.is}
			switch op.Type {
			case "softmax_with_cross_entropy":
				found.prediction = op.Out("Softmax")
			case "sigmoid_cross_entropy_with_logits":
				if sigmoid := readerOf(block, found.prediction, "sigmoid"); sigmoid != nil {
					found.prediction, found.is = sigmoid.Out("Out"), probabilities
				}
			case "elementwise_sub":
				ok = readerOf(block, op.Out("Out"), "square", "abs") != nil && isData(made, found.label) && !isData(made, found.prediction)
			}
			v, declared := block.Find(found.prediction)
			if found.columns = 1; declared && len(v.Dims) > 1 {
				found.columns = v.Dims[len(v.Dims)-1]
			}
			if ok && declared && !slices.Contains(pairs, found) {
				pairs = append(pairs, found)
			}
		}
		for _, name := range op.OutputNames() {
			made[name] = op
		}
	}
	return pairs
}

// readerOf returns the first op of one of the types that reads a variable as X.
func readerOf(block *program.Block, name string, types ...string) *program.Op {
	for _, op := range block.Ops {
		if slices.Contains(types, op.Type) && op.In("X") == name {
			return op
		}
	}
	return nil
}

// isData reports whether a variable is read or fed, and no result of other ops.
func isData(made map[string]*program.Op, name string) bool {
	op := made[name]
	return op == nil || op.Type == "read" || op.Type == "feed"
}

// uncast returns the field of which a variable is a cast from whole numbers to floating-point, which has the same values, or else the variable.
func uncast(block *program.Block, made map[string]*program.Op, name string) string {
	op := made[name]
	if op == nil || op.Type != "cast" || !isData(made, op.In("X")) {
		return name
	}
	from, ok := block.Find(op.In("X"))
	to, declared := block.Find(name)
	if ok && declared && to.DType.IsFloat() && !from.DType.IsFloat() {
		return from.Name
	}
	return name
}

// serves reports whether a metric can be computed of a pair.
func (k kind) serves(p pair) bool {
	switch k.reads {
	case scores:
		return p.is != numbers && p.columns <= 2
	case probabilities:
		return (p.is == probabilities || p.is == distribution) && p.columns <= 2
	case classes, distribution:
		return p.is == probabilities || p.is == distribution
	}
	return p.is == numbers
}

// Fill returns s with the variables that it leaves empty. It takes them from the losses of p, where exactly one prediction with its label fits. It checks
// that p has the variables that s names, and that the prediction is of floats.
func (s Spec) Fill(p *program.Program) (Spec, error) {
	k, err := kindOf(s.Kind)
	if err != nil {
		return s, err
	}
	if s.Prediction != "" {
		var all []string
		for _, v := range p.Global().Vars() {
			all = append(all, v.Name)
		}
		for _, name := range []string{s.Prediction, s.Label, s.Weight} {
			if _, ok := p.Global().Find(name); !ok && name != "" {
				return s, fault.E(fault.NotFound, fault.At("metric "+s.Kind), fault.Var(name), fault.Got("no such variable in the program"), fault.Want("the name of one"),
					fault.DidYouMean(name, all))
			}
		}
		if v, _ := p.Global().Find(s.Prediction); v.Kind == program.LoDTensor && !v.DType.IsFloat() {
			return s, fault.E(fault.TypeMismatch, fault.At("metric "+s.Kind), fault.Var(s.Prediction), fault.Gotf("a prediction of %v", v.DType), fault.Want("float32 or float64"),
				fault.Hint("the prediction comes first: "+s.Kind+"=PREDICTION,LABEL"))
		}
		return s, nil
	}
	var fit []string
	for _, pair := range pairsOf(p) {
		text := pair.prediction + "," + pair.label
		if !k.serves(pair) || slices.Contains(fit, text) {
			continue
		}
		fit = append(fit, text)
		s.Prediction, s.Label = pair.prediction, pair.label
	}
	if len(fit) == 1 {
		return s, nil
	}
	got := "no loss in the program whose prediction and label fit"
	if len(fit) > 1 {
		got = "several predictions with labels that fit: " + strings.Join(fit, "; ")
	}
	return s, fault.E(fault.InvalidArgument, fault.At("metric "+s.Kind), fault.Got(got), fault.Want(s.Kind+"=PREDICTION,LABEL"),
		fault.Hint("\"edl show PROGRAM\" lists the variables"))
}
