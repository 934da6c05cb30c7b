package ops_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/program"
)

// Paddle writes ops with integers, and with operands of several types, which EDL does not compute yet: no fault calls such a program malformed, nor those of its gradient. What no version
// of Paddle computes stays a mismatch.
func TestTypesThatPaddleHasAreUnsupported(t *testing.T) {
	declared := `var x float32 [2,3] feed=[2,3]
		var n int64 [2,3] feed=[2,3]
		var i int32 [2,3] feed=[2,3]
		var b bool [2,3] feed=[2,3]
		`
	for name, c := range map[string]struct {
		lines string
		kind  fault.Kind
	}{
		"exp":          {"exp X=n -> Out=y | op_role=0", fault.Unsupported},
		"exp of bool":  {"exp X=b -> Out=y | op_role=0", fault.Unsupported},
		"curve":        {"log2 X=i -> Out=y | op_role=0", fault.Unsupported},
		"reduce_mean":  {"reduce_mean X=n -> Out=y | dim=[1]", fault.Unsupported},
		"mixed sum":    {"elementwise_add X=x Y=n -> Out=y | axis=-1", fault.Unsupported},
		"mixed widths": {"elementwise_mul X=n Y=i -> Out=y | axis=-1", fault.Unsupported},
		"mixed power":  {"elementwise_pow X=i Y=x -> Out=y | axis=-1", fault.Unsupported},
		"mixed order":  {"less_than X=x Y=n -> Out=y | axis=-1", fault.Unsupported},
		"with gradients": {`elementwise_add X=x Y=n -> Out=y | axis=-1
			mean X=y -> Out=l | op_role=256
			fill_constant -> Out=l@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
			mean_grad X=y Out@GRAD=l@GRAD -> X@GRAD=y@GRAD | op_role=1
			elementwise_add_grad X=x Y=n Out@GRAD=y@GRAD -> X@GRAD=x@GRAD | axis=-1 op_role=1`, fault.Unsupported},
		"softmax of integers": {"softmax X=n -> Out=y | axis=-1", fault.TypeMismatch},
		"convolved integers":  {"conv2d Input=n Filter=n -> Output=y | op_role=0", fault.TypeMismatch},
	} {
		m, err := fluidtext.Read(declared + c.lines)
		if err != nil {
			t.Fatal(err)
		}
		err = ops.Verify(m.Program, program.StageLocal)
		var faults fault.List
		if !errors.As(err, &faults) {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range faults {
			if f.Kind != c.kind {
				t.Errorf("%s: %v is %v, want %v", name, f, f.Kind, c.kind)
			}
		}
	}
}
