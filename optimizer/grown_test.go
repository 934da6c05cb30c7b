package optimizer_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// evicting is a model with a table that evicts keys.
func evicting() (*layers.Model, layers.Variable) {
	m := layers.NewModel()
	key := layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64))
	rows := layers.SparseEmbedding(key, 640, 4, layers.Param(layers.ParamAttr{Name: "table"}), layers.CountFilterEntry(2), layers.EvictUnseen(10))
	return m, layers.Mean(layers.Square(layers.FC(rows, 3)))
}

// Whatever a rule keeps for each row of a table moves with the rows.
func TestStatesMoveWithRows(t *testing.T) {
	for name, o := range map[string]*optimizer.Optimizer{
		"sgd": optimizer.SGD(0.1), "adam": optimizer.Adam(0.1), "adagrad": optimizer.Adagrad(0.1), "momentum": optimizer.Momentum(0.1, 0.9), "ftrl": optimizer.Ftrl(0.1),
		"rmsprop": optimizer.RMSProp(0.1, optimizer.Centered()), "lookahead": optimizer.Lookahead(optimizer.Adam(0.1), 0.5, 2),
		"custom": optimizer.Custom(0.1, func(u *optimizer.Update) {
			speed := u.State("speed", 0.25)
			u.Set(speed, layers.Sums([]layers.Variable{speed, u.Grad}))
			u.Set(u.Param, layers.Sub(u.Param, speed))
		}),
	} {
		m, loss := evicting()
		o.Minimize(loss)
		p := build(t, m)
		if err := ops.Verify(p, program.StageLocal); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b := p.Global()
		at := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return op.Type == "lookup_sparse_table_shrink" })
		if at < 0 {
			t.Fatalf("%s: the table is never shrunk", name)
		}
		moments, initial := b.Ops[at].Inputs["Moments"], b.Ops[at].Attrs["moments_initial"]
		values, _ := initial.([]float32)
		for _, v := range b.Vars() {
			if v.Persistable && v.DType == tensor.Float32 && slices.Equal(v.Dims, []int64{640, 4}) && v.Name != "table" && !slices.Contains(moments, v.Name) {
				t.Errorf("%s: %s stays where it is", name, v.Name)
			}
		}
		if len(values) != len(moments) || name == "custom" && !slices.Equal(values, []float32{0.25}) {
			t.Errorf("%s: moments %v with the first values %v", name, moments, initial)
		}
	}
}

// What keeps values for rows in its own way refuses a table whose rows move.
func TestAveragesRefuseTablesThatEvict(t *testing.T) {
	for name, average := range map[string]func([]optimizer.Pair){
		"exponential": func(pairs []optimizer.Pair) { optimizer.ExponentialMovingAverage(pairs, 0.9) },
		"window":      func(pairs []optimizer.Pair) { optimizer.ModelAverage(pairs, 0.5, 1, 4) },
	} {
		m, loss := evicting()
		average(optimizer.SGD(0.1).Minimize(loss))
		if _, err := m.Program(); fault.KindOf(err) != fault.Unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}
