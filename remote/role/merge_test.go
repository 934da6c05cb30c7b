package role

import (
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// What all trainers receive from a server is told as they have it: a mean of equal numbers may be another one.
func TestReceivedValuesAreNotAveraged(t *testing.T) {
	const rate = float32(0.04613724)
	p := program.New()
	for _, name := range []string{"rate", "loss"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	}
	p.Global().Append(&program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"rate"}}})
	var reports []*rpc.TrainerStep
	for _, rows := range []int64{2, 3, 3} {
		value := func(name string, v float32) *job.Value {
			one, err := tensor.FromSlice([]float32{v}, 1)
			if err != nil {
				t.Fatal(err)
			}
			return &job.Value{Name: name, Stream: tensor.AppendStream(nil, one)}
		}
		reports = append(reports, &rpc.TrainerStep{Rows: rows, Fetched: []*job.Value{value("rate", rate), value("loss", float32(rows))}})
	}
	merged, err := mergeReports(p, ops.MergeMean, received(p), reports)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{rate, 22. / 8} {
		got, _, err := tensor.DecodeStream(merged[i].Stream, tensor.Limits{})
		if err != nil || got.Float32s()[0] != want {
			t.Errorf("%s is %v, %v, want %v", merged[i].Name, got.Float32s()[0], err, want)
		}
	}
}
