package kserve

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// wanted calls each with the outputs that a request asks for, in the order in which it does, or all in that of the model.
func (r *request) wanted(schema *serving.Schema, each func(f *serving.Field)) {
	for i := range schema.Outputs {
		if len(r.outputs) == 0 {
			each(&schema.Outputs[i])
		}
	}
	for _, name := range r.outputs {
		each(&schema.Outputs[slices.IndexFunc(schema.Outputs, func(f serving.Field) bool { return f.Name == name })])
	}
}

// appendResponse writes a response as JSON.
func appendResponse(b []byte, name, version string, r *request, schema *serving.Schema, outputs map[string]*tensor.Tensor) []byte {
	b = append(b, `{"model_name":`...)
	b = appendText(b, name)
	b = append(b, `,"model_version":`...)
	b = appendText(b, version)
	if r.id != "" {
		b = append(b, `,"id":`...)
		b = appendText(b, r.id)
	}
	b = append(b, `,"outputs":[`...)
	first := true
	r.wanted(schema, func(f *serving.Field) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendOutput(b, f, outputs[f.Name])
	})
	return append(b, "]}\n"...)
}

func appendText(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string has no error
	return append(b, quoted...)
}

func appendOutput(b []byte, f *serving.Field, t *tensor.Tensor) []byte {
	b = append(b, `{"name":`...)
	b = appendText(b, f.Name)
	b = append(b, `,"datatype":"`...)
	b = append(b, datatypes[t.DType()]...)
	b = append(b, `","shape":[`...)
	b = appendList(b, t.Dims(), appendInteger)
	if lod := t.LoD(); len(lod) > 0 {
		b = append(b, `],"parameters":{"`+lodParameter+`":"`...)
		b = append(b, tensor.FormatLoD(lod)...)
		b = append(b, `"},"data":[`...)
	} else {
		b = append(b, `],"data":[`...)
	}
	switch t.DType() {
	case tensor.Bool:
		b = appendList(b, t.Bools(), strconv.AppendBool)
	case tensor.Int32:
		b = appendList(b, t.Int32s(), func(b []byte, v int32) []byte { return appendInteger(b, int64(v)) })
	case tensor.Int64:
		b = appendList(b, t.Int64s(), appendInteger)
	case tensor.Float32:
		b = appendList(b, t.Float32s(), func(b []byte, v float32) []byte { return appendFloat(b, float64(v), 32) })
	case tensor.Float64:
		b = appendList(b, t.Float64s(), func(b []byte, v float64) []byte { return appendFloat(b, v, 64) })
	case tensor.BFloat16:
		b = appendList(b, tensor.Data[uint16](t), func(b []byte, v uint16) []byte { return appendFloat(b, float64(tensor.Widen(v)), 32) })
	}
	return append(b, "]}"...)
}

func appendInteger(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return b
}
