package program_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
)

// conditional follows the backward pass of step: a counter, its condition, and a block that changes the parameter.
const conditional = `var count int32 [1] value=0
var every int32 [1] value=2
var zero int32 [1] value=0
var due bool [1] value=0
var sum float32 [2,1] value=0
var scope int32 [] scopes
increment X=count -> Out=count | step=1.0f
elementwise_mod X=count Y=every -> Out=count | axis=-1
equal X=count Y=zero -> Out=due | axis=-1
elementwise_add X=w@GRAD Y=sum -> Out=sum | axis=-1 op_role=1 op_role_var=["w","sum"]
conditional_block Cond=due Input=w,sum,rate -> Out=w,sum Scope=scope | sub_block=block:1 is_scalar_condition=true
block 1 0
sgd Param=w Grad=sum LearningRate=rate -> ParamOut=w | op_role=2
fill_constant -> Out=sum | shape=[2L,1L] value=0.0f dtype=5
global
`

// The merge of gradients is an update, and what counts its steps a schedule. The condition is no state, since each step computes it.
func TestConditionalUpdates(t *testing.T) {
	before, _, _ := strings.Cut(step, "square X=")
	m, err := fluidtext.Read(before + conditional)
	if err != nil {
		t.Fatal(err)
	}
	roles := rolesOf(m.Program)
	for name, want := range map[string]program.Role{"cost": 0, "w@GRAD": 1, "count": 16, "due": 16, "sum": 2, "w": 2} {
		if roles[name] != want {
			t.Errorf("the op that writes %s has the role %d, want %d", name, roles[name], want)
		}
	}
	for _, op := range m.Program.Blocks[1].Ops {
		if !op.Role().Has(program.RoleOptimize) {
			t.Errorf("%v has the role %d", op, op.Role())
		}
	}
	for name, want := range map[string]bool{"due": false, "count": true, "sum": true} {
		if v, _ := m.Program.Global().Var(name); v.Persistable != want {
			t.Errorf("%s is persistable: %v", name, v.Persistable)
		}
	}
}

// A counter that the forward pass reads, or that counts what the batch has, stays there. So does a block that changes no parameter.
func TestStepsThatStay(t *testing.T) {
	before, _, _ := strings.Cut(step, "square X=")
	for name, change := range map[string][2]string{
		"read by the forward pass": {"mean X=doubled", "cast X=count -> Out=seen | in_dtype=2 out_dtype=5\nelementwise_add X=doubled Y=seen -> Out=more\nmean X=doubled"},
		"of the batch":             {"increment X=count -> Out=count | step=1.0f", "reduce_sum X=x -> Out=all | reduce_all=true\ncast X=all -> Out=count | in_dtype=5 out_dtype=2"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := fluidtext.Read(strings.Replace("var more float32 [-1,1]\n"+before+conditional, change[0], change[1], 1))
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range m.Program.Global().Ops {
				if op.Out("Out") == "count" && op.Role() != program.RoleForward {
					t.Errorf("%v has the role %d", op, op.Role())
				}
			}
		})
	}
	t.Run("without a parameter", func(t *testing.T) {
		m, err := fluidtext.Read(step + strings.NewReplacer("Input=w,sum,rate -> Out=w,sum", "Input=count -> Out=count",
			"sgd Param=w Grad=sum LearningRate=rate -> ParamOut=w | op_role=2\nfill_constant -> Out=sum | shape=[2L,1L]", "fill_constant -> Out=count | shape=[1L]").Replace(conditional))
		if err != nil {
			t.Fatal(err)
		}
		if role := m.Program.Blocks[1].Ops[0].Role(); role != program.RoleForward {
			t.Errorf("the role is %d", role)
		}
	})
}
