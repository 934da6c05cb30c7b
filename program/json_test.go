package program_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
)

func TestJSONForScripts(t *testing.T) {
	p := regression(t)
	p.Global().Ops[0].SetAttr("nan", float32(math.NaN()))
	p.Global().Ops[0].SetAttr("mixed", []float64{1, math.Inf(-1)})
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Hash   string
		Blocks []struct {
			Vars []struct {
				Name, Kind, DType string
				Dims              []int64
				IsParameter       bool `json:"is_parameter"`
			}
			Ops []struct {
				Type, Line string
				Inputs     map[string][]string
				Attrs      map[string]any
			}
		}
		Startup struct{ Blocks []any }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	op, v := got.Blocks[0].Ops[0], got.Blocks[0].Vars[2]
	if got.Hash != hash.String() || op.Type != "mul" || op.Line != "model/fit.go:12" || op.Inputs["Y"][0] != "fc_0.w_0" || len(got.Startup.Blocks) != 1 {
		t.Errorf("got %+v", got)
	}
	if op.Attrs["nan"] != "NaN" || op.Attrs["x_num_col_dims"] != 1.0 || op.Attrs["mixed"].([]any)[1] != "-Inf" || op.Attrs["op_callstack"] != nil {
		t.Errorf("attributes %v", op.Attrs)
	}
	if v.Name != "fc_0.b_0" || v.Kind != "lod_tensor" || v.DType != "float32" || !v.IsParameter {
		t.Errorf("variable %+v", v)
	}
}
