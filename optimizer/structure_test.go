package optimizer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestRegressionWithSGDHasFluidsOps(t *testing.T) {
	m := layers.NewModel()
	optimizer.SGD(0.01).Minimize(regression(m))
	p := build(t, m)
	want := "mul elementwise_add elementwise_sub square mean " +
		"fill_constant mean_grad square_grad elementwise_sub_grad elementwise_add_grad mul_grad sgd sgd"
	if got := opTypes(p); got != want {
		t.Errorf("main program:\n got %s\nwant %s", got, want)
	}
	want = "uniform_random fill_constant fill_constant"
	if got := opTypes(p.Startup); got != want {
		t.Errorf("startup program: got %s, want %s", got, want)
	}
	wantVars := []string{"x", "y", "fc_0.w_0", "fc_0.tmp_0", "fc_0.b_0", "fc_0.tmp_1", "square_error_cost_0.tmp_0",
		"square_error_cost_0.tmp_1", "mean_0.tmp_0",
		"mean_0.tmp_0@GRAD", "square_error_cost_0.tmp_1@GRAD", "square_error_cost_0.tmp_0@GRAD", "fc_0.tmp_1@GRAD", "fc_0.tmp_0@GRAD",
		"fc_0.b_0@GRAD", "fc_0.w_0@GRAD", "learning_rate_0"}
	var vars []string
	for _, v := range p.Global().Vars() {
		vars = append(vars, v.Name)
	}
	if !slices.Equal(vars, wantVars) {
		t.Errorf("variables:\n got %v\nwant %v", vars, wantVars)
	}
}

func TestRolesTellTheTranspilerWhatBelongsToWhom(t *testing.T) {
	m := layers.NewModel()
	optimizer.SGD(0.01, optimizer.Regularize(layers.L2(0.1))).Minimize(regression(m))
	var got []string
	for _, op := range build(t, m).Global().Ops {
		line := op.Type
		for i, bit := range []program.Role{program.RoleBackward, program.RoleOptimize, program.RoleLoss} {
			if op.Role().Has(bit) {
				line += []string{" backward", " optimize", " loss"}[i]
			}
		}
		for _, pair := range op.RoleVars() {
			line += " " + pair[0] + "," + pair[1]
		}
		got = append(got, line)
	}
	want := []string{
		"mul", "elementwise_add", "elementwise_sub", "square", "mean loss",
		"fill_constant backward loss", "mean_grad backward", "square_grad backward", "elementwise_sub_grad backward",
		"elementwise_add_grad backward fc_0.b_0,fc_0.b_0@GRAD", "mul_grad backward fc_0.w_0,fc_0.w_0@GRAD",
		"scale optimize fc_0.w_0,fc_0.w_0@GRAD", "sum optimize fc_0.w_0,fc_0.w_0@GRAD", "sgd optimize fc_0.w_0,fc_0.w_0@GRAD",
		"scale optimize fc_0.b_0,fc_0.b_0@GRAD", "sum optimize fc_0.b_0,fc_0.b_0@GRAD", "sgd optimize fc_0.b_0,fc_0.b_0@GRAD",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestWord2VecSharesOneTable(t *testing.T) {
	m := layers.NewModel()
	var words []layers.Variable
	for _, name := range []string{"first", "second", "third", "fourth"} {
		id := layers.Data(m, name, layers.Dims(1), layers.DType(tensor.Int64))
		words = append(words, layers.Embedding(id, 50, 4, layers.Param(layers.ParamAttr{Name: "shared_w"})))
	}
	hidden := layers.FC(layers.Concat(words, 1), 8, layers.Act("sigmoid"))
	next := layers.Data(m, "next", layers.Dims(1), layers.DType(tensor.Int64))
	loss := layers.Mean(layers.CrossEntropy(layers.FC(hidden, 50, layers.Act("softmax")), next))
	optimizer.SGD(0.001).Minimize(loss)
	p := build(t, m)
	var sum *program.Op
	for _, op := range withRole(p, program.RoleBackward) {
		if op.Type == "sum" {
			sum = op
		}
	}
	parts := []string{"shared_w@GRAD@RENAME@0", "shared_w@GRAD@RENAME@1", "shared_w@GRAD@RENAME@2", "shared_w@GRAD@RENAME@3"}
	if sum == nil || !slices.Equal(sum.Inputs["X"], parts) || sum.Out("Out") != "shared_w@GRAD" {
		t.Fatalf("the parts of the shared gradient are not summed: %+v", sum)
	}
	if got := sum.RoleVars(); !slices.Equal(got, [][2]string{{"shared_w", "shared_w@GRAD"}}) {
		t.Errorf("the sum belongs to %v", got)
	}
}
