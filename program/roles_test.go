package program_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
)

// rolesOf returns the roles of the ops of a program, by the name of what they write first.
func rolesOf(p *program.Program) map[string]program.Role {
	roles := map[string]program.Role{}
	for _, op := range p.Global().Ops {
		roles[op.OutputNames()[0]] = op.Role()
	}
	return roles
}

const step = `var x float32 [-1,2] feed=[2,2]
var w float32 [2,1] value=random
var rate float32 [1] value=0.1
mul X=x Y=w -> Out=cost
fill_constant -> Out=two | shape=[1L] value=2.0f dtype=5
elementwise_mul X=cost Y=two -> Out=doubled | axis=-1
mean X=doubled -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=doubled Out@GRAD=loss@GRAD -> X@GRAD=doubled@GRAD | op_role=1
elementwise_mul_grad X=cost Y=two Out@GRAD=doubled@GRAD -> X@GRAD=cost@GRAD | axis=-1 op_role=1
mul_grad X=x Y=w Out@GRAD=cost@GRAD -> Y@GRAD=w@GRAD@RENAME@0 | op_role=1
sum X=w@GRAD@RENAME@0 -> Out=w@GRAD | op_role=1
square X=w@GRAD -> Out=seen
clip X=w@GRAD -> Out=clipped | min=-0.1f max=0.1f
scale X=w -> Out=decay | scale=0.1f
sum X=clipped,decay -> Out=decayed
elementwise_mul X=decayed Y=two -> Out=more | axis=-1
sgd Param=w Grad=more LearningRate=rate -> ParamOut=w | op_role=2
`

// What a user does with gradients between the backward pass and the update is of the update, with the constants that it reads. What no update depends on stays.
func TestChangesOfGradientsAreOfTheUpdate(t *testing.T) {
	m, err := fluidtext.Read(step)
	if err != nil {
		t.Fatal(err)
	}
	roles := rolesOf(m.Program)
	for name, want := range map[string]program.Role{"cost": 0, "two": 0, "loss": 256, "w@GRAD": 1, "seen": 0, "clipped": 2, "two@UPDATE": 2, "decay": 2, "decayed": 2, "more": 2, "w": 2} {
		if got, ok := roles[name]; !ok || got != want {
			t.Errorf("the op that writes %s has the role %d (%v), want %d", name, got, ok, want)
		}
	}
	for _, op := range m.Program.Global().Ops {
		if op.OutputNames()[0] == "more" && op.In("Y") != "two@UPDATE" {
			t.Errorf("%v reads the constant of the forward pass", op)
		}
	}
}

// A step of a schedule is not taken twice, and what a loss reads of gradients stays where it is.
func TestGradientsThatOthersReadStay(t *testing.T) {
	for name, lines := range map[string]string{
		"read by the forward pass": "clip X=w@GRAD -> Out=clipped | min=-0.1f max=0.1f\nelementwise_add X=clipped Y=cost -> Out=penalty | axis=-1\nsgd Param=w Grad=clipped LearningRate=rate -> ParamOut=w | op_role=2\n",
		"times a schedule": `increment X=rate -> Out=rate | step=1.0f op_role=16
scale X=rate -> Out=now | scale=2.0f op_role=16
elementwise_mul X=w@GRAD Y=now -> Out=clipped | axis=-1
sgd Param=w Grad=clipped LearningRate=rate -> ParamOut=w | op_role=2
`} {
		t.Run(name, func(t *testing.T) {
			text, _, _ := strings.Cut(step, "square X=")
			m, err := fluidtext.Read(text + lines)
			if err != nil {
				t.Fatal(err)
			}
			if got := rolesOf(m.Program)["clipped"]; got != program.RoleForward {
				t.Errorf("the role is %d", got)
			}
			if n := len(m.Program.Global().Ops); n != strings.Count(text+lines, " -> ") {
				t.Errorf("%d ops", n)
			}
		})
	}
}

// Programs of the first releases have no roles. They follow from the order of the ops and from what reads what.
func TestRolesOfTheFirstReleases(t *testing.T) {
	m, err := fluidtext.Read(step)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range m.Program.Global().Ops {
		delete(op.Attrs, program.AttrRole)
	}
	rate := &program.Op{Type: "scale", Inputs: map[string][]string{"X": {"rate"}}, Outputs: map[string][]string{"Out": {"now"}}, Attrs: map[string]program.Attr{"scale": float32(2)}}
	v, _ := m.Program.Global().Var("rate")
	now := v.Copy("now")
	now.Persistable = false
	m.Program.Global().EnsureVar(now)
	m.Program.Global().Ops = append([]*program.Op{rate}, m.Program.Global().Ops...)
	last := m.Program.Global().Ops[len(m.Program.Global().Ops)-1]
	last.Inputs["LearningRate"] = []string{"now"}
	p, err := fluidtext.Again(m.Program)
	if err != nil {
		t.Fatal(err)
	}
	roles := rolesOf(p)
	for name, want := range map[string]program.Role{"now": 16, "cost": 0, "two": 0, "loss": 256, "loss@GRAD": 257, "cost@GRAD": 1, "w@GRAD@RENAME@0": 1, "w@GRAD": 1, "clipped": 2, "w": 2} {
		if got := roles[name]; got != want {
			t.Errorf("the op that writes %s has the role %d, want %d", name, got, want)
		}
	}
	if strings.Contains(strings.Join(p.Global().Ops[0].InputNames(), " "), "@UPDATE") {
		t.Error("the schedule has changed")
	}
}

// Gradient ops on which a loss depends are of the forward pass, and the others of the backward pass.
func TestGradientsThatALossReadsAreOfTheForwardPass(t *testing.T) {
	m, err := fluidtext.Read(`var x float32 [-1,2] feed=[2,2]
var w float32 [2,1] value=random
var rate float32 [1] value=0.1
mul X=x Y=w -> Out=score
fill_constant_batch_size_like Input=score -> Out=score@GRAD | shape=[-1,1] value=1.0f dtype=5 op_role=1
mul_grad X=x Y=w Out@GRAD=score@GRAD -> X@GRAD=x@GRAD | op_role=1
scale X=x@GRAD -> Out=unused | scale=2.0f op_role=1
square X=x@GRAD -> Out=squares
mean X=squares -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=squares Out@GRAD=loss@GRAD -> X@GRAD=squares@GRAD | op_role=1
square_grad X=x@GRAD Out@GRAD=squares@GRAD -> X@GRAD=x@GRAD@GRAD | op_role=1
mul_grad_grad X=x Y=w DOut=score@GRAD DDX=x@GRAD@GRAD -> DY=w@GRAD | op_role=1
sgd Param=w Grad=w@GRAD LearningRate=rate -> ParamOut=w | op_role=2
`)
	if err != nil {
		t.Fatal(err)
	}
	roles := rolesOf(m.Program)
	for name, want := range map[string]program.Role{"score@GRAD": 0, "x@GRAD": 0, "unused": 1, "squares": 0, "loss": 256, "squares@GRAD": 1, "x@GRAD@GRAD": 1, "w@GRAD": 1} {
		if got, ok := roles[name]; !ok || got != want {
			t.Errorf("the op that writes %s has the role %d (%v), want %d", name, got, ok, want)
		}
	}
}
