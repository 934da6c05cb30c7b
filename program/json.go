package program

import (
	"encoding/json"
	"io"
	"math"
	"slices"
)

// JSON writes the program and its startup program as one JSON object for scripts: hash, version, and blocks with their variables and ops.
// Attributes are plain values. NaN and infinities, which JSON lacks, are strings. Nothing reads this form back: it lacks the types of attributes
// and what only files hold.
func (p *Program) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(jsonOf(p))
}

type jsonProgram struct {
	Hash    string       `json:"hash,omitempty"`
	Version int64        `json:"version"`
	Blocks  []jsonBlock  `json:"blocks"`
	Startup *jsonProgram `json:"startup,omitempty"`
}

type jsonBlock struct {
	Index   int       `json:"index"`
	Parent  int       `json:"parent"`
	Forward int       `json:"forward"`
	Vars    []jsonVar `json:"vars"`
	Ops     []jsonOp  `json:"ops"`
}

type jsonVar struct {
	Name          string    `json:"name,omitempty"`
	Kind          string    `json:"kind"`
	DType         string    `json:"dtype,omitempty"`
	Dims          []int64   `json:"dims,omitempty"`
	LoDLevel      int       `json:"lod_level,omitempty"`
	Persistable   bool      `json:"persistable,omitempty"`
	IsParameter   bool      `json:"is_parameter,omitempty"`
	StopGradient  bool      `json:"stop_gradient,omitempty"`
	NeedCheckFeed bool      `json:"need_check_feed,omitempty"`
	Fields        []jsonVar `json:"fields,omitempty"`
}

type jsonOp struct {
	Type    string              `json:"type"`
	Inputs  map[string][]string `json:"inputs,omitempty"`
	Outputs map[string][]string `json:"outputs,omitempty"`
	Attrs   map[string]any      `json:"attrs,omitempty"`
	Line    string              `json:"line,omitempty"`
}

func jsonOf(p *Program) *jsonProgram {
	j := &jsonProgram{Version: p.Version, Blocks: []jsonBlock{}}
	if hash, err := p.Hash(); err == nil {
		j.Hash = hash.String()
	}
	for _, b := range p.Blocks {
		block := jsonBlock{Index: b.Index, Parent: b.Parent, Forward: b.Forward, Vars: []jsonVar{}, Ops: []jsonOp{}}
		for _, name := range sortedKeys(b.vars) {
			block.Vars = append(block.Vars, jsonOfVar(b.vars[name]))
		}
		for _, op := range b.Ops {
			block.Ops = append(block.Ops, jsonOfOp(op))
		}
		j.Blocks = append(j.Blocks, block)
	}
	if p.Startup != nil {
		j.Startup = jsonOf(p.Startup)
	}
	return j
}

func jsonOfVar(v *Var) jsonVar {
	j := jsonVar{
		Name: v.Name, Kind: v.Kind.String(), LoDLevel: v.LoDLevel, Persistable: v.Persistable,
		IsParameter: v.IsParameter, StopGradient: v.StopGradient, NeedCheckFeed: v.NeedCheckFeed,
	}
	if v.Kind.isTensor() {
		j.DType, j.Dims = v.DType.String(), v.Dims
	}
	for i := range v.Fields {
		j.Fields = append(j.Fields, jsonOfVar(&v.Fields[i]))
	}
	return j
}

func jsonOfOp(op *Op) jsonOp {
	j := jsonOp{Type: op.Type, Inputs: op.Inputs, Outputs: op.Outputs, Line: op.Line(), Attrs: map[string]any{}}
	for name, a := range op.Attrs {
		if name != AttrCallstack {
			j.Attrs[name] = jsonOfAttr(a)
		}
	}
	return j
}

func jsonOfAttr(a Attr) any {
	switch v := a.(type) {
	case float32:
		return jsonNumber(v)
	case float64:
		return jsonNumber(v)
	case []float32:
		return jsonNumbers(v)
	case []float64:
		return jsonNumbers(v)
	case Opaque:
		return map[string]any{"type": AttrTypeName(v), "bytes": v.raw}
	}
	if _, ok := attrType(a); !ok {
		return AttrTypeName(a)
	}
	return a
}

func jsonNumber[T float32 | float64](x T) any {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return (&texter{}).attr(float64(x))
	}
	return x
}

func jsonNumbers[T float32 | float64](values []T) any {
	if !slices.ContainsFunc(values, func(x T) bool { _, text := jsonNumber(x).(string); return text }) {
		return values
	}
	mixed := make([]any, len(values))
	for i, x := range values {
		mixed[i] = jsonNumber(x)
	}
	return mixed
}
