package optim

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// number declares a FLOAT attribute with a default and the closed range of its values.
func number(name string, value float32, low, high float64, doc string) ops.Attr {
	return ops.Attr{Name: name, Default: value, Doc: doc, Check: inRange(name, low, high)}
}

// fraction declares a FLOAT attribute between 0 and 1, such as a decay rate.
func fraction(name string, value float32, doc string) ops.Attr { return number(name, value, 0, 1, doc) }

// inRange checks a number and says what is wanted; NaN and infinities are in no range.
func inRange(name string, low, high float64) func(*program.Op) error {
	return func(op *program.Op) error {
		v, ok := op.Float(name)
		if !ok || v >= low && v <= high {
			return nil
		}
		return fmt.Errorf("a number from %v to %v", low, high)
	}
}

// epsilonAttr declares the small number that keeps a division from zero.
func epsilonAttr(value float32) ops.Attr {
	return number("epsilon", value, 0, math.MaxFloat32, "keeps the division from zero")
}
