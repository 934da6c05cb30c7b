package program_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edl-go/edl/program"
)

// oldForms writes a variable as an old form of files did.
var oldForms = map[string]func(name string, kind uint64, description []byte, persistable bool) []byte{
	"generation 0": func(name string, kind uint64, description []byte, persistable bool) []byte {
		v := number(field(nil, 1, []byte(name)), 2, kind-6)
		if description != nil {
			v = field(v, map[uint64]protowire.Number{7: 3, 8: 4, 13: 6}[kind], description)
		}
		return number(v, 5, protowire.EncodeBool(persistable))
	},
	"generation A": func(name string, kind uint64, description []byte, persistable bool) []byte {
		v := number(number(field(nil, 1, []byte(name)), 2, kind-6), 3, protowire.EncodeBool(persistable))
		if description != nil {
			v = field(v, map[uint64]protowire.Number{7: 4, 8: 5, 13: 6, 15: 7}[kind], description)
		}
		return v
	},
	"generation A'": func(name string, kind uint64, description []byte, persistable bool) []byte {
		return varWithType(name, kind-6, description, kind, persistable)
	},
}

// varWithType writes a variable whose type is a message, as files have it since 2018-02-12.
func varWithType(name string, writtenKind uint64, description []byte, kind uint64, persistable bool) []byte {
	t := number(nil, 1, writtenKind)
	if description != nil {
		t = field(t, map[uint64]protowire.Number{7: 3, 8: 2, 13: 4, 15: 5}[kind], description)
	}
	return number(field(field(nil, 1, []byte(name)), 2, t), 3, protowire.EncodeBool(persistable))
}

func TestOldGenerationsAreBroughtUpToDate(t *testing.T) {
	matrix := number(number(number(nil, 1, 5), 2, ^uint64(0)), 2, 13)
	lodTensor := number(field(nil, 1, matrix), 2, 1)
	variables := []struct {
		name        string
		kind        uint64
		description []byte
		persistable bool
		onlyA       bool // generation 0 has no readers
	}{
		{name: "feed", kind: 9, persistable: true},
		{name: "x", kind: 7, description: lodTensor},
		{name: "fc_0.w_0", kind: 7, description: lodTensor, persistable: true},
		{name: "rows", kind: 8, description: matrix},
		{name: "array", kind: 13, description: lodTensor},
		{name: "scopes", kind: 11},
		{name: "reader", kind: 15, description: field(nil, 1, lodTensor), onlyA: true},
		{name: "fetch", kind: 10},
	}
	constant := field(nil, 4, field(field(nil, 3, []byte("fill_constant")), 4, number(number(field(nil, 1, []byte("data_type")), 2, 0), 3, 5)))
	today := field(nil, 4, field(field(nil, 3, []byte("fill_constant")), 4, number(number(field(nil, 1, []byte("dtype")), 2, 0), 3, 5)))
	for form, write := range oldForms {
		t.Run(form, func(t *testing.T) {
			var old, current [][]byte
			for _, v := range variables {
				if v.onlyA && form == "generation 0" {
					continue
				}
				old = append(old, field(nil, 3, write(v.name, v.kind, v.description, v.persistable)))
				current = append(current, field(nil, 3, varWithType(v.name, v.kind, v.description, v.kind, v.persistable)))
			}
			got, err := program.Decode(block(append(old, constant)...), program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := program.Decode(block(append(current, today)...), program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			requireSameText(t, got, want)
			if v, ok := got.Global().Var("fc_0.w_0"); !ok || !v.Persistable || v.Kind != program.LoDTensor || !cmp.Equal(v.Dims, []int64{-1, 13}) || v.LoDLevel != 1 {
				t.Errorf("fc_0.w_0 became %+v", v)
			}
		})
	}
}

func requireSameText(t *testing.T, got, want *program.Program) {
	t.Helper()
	gotText, err := got.ProtoText()
	if err != nil {
		t.Fatal(err)
	}
	wantText, err := want.ProtoText()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(wantText), string(gotText)); diff != "" {
		t.Errorf("- want, + got:\n%s", diff)
	}
}

// A pickled model as Python 2 wrote it: strings have numbers, and a name that occurred before is its number.
func TestPickledModelsGetFeedAndFetchOps(t *testing.T) {
	want, err := regression(t).InferenceProgram([]string{"x"}, []string{"fc_0.tmp_1"})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := regression(t).InferenceProgram([]string{"x"}, []string{"fc_0.tmp_1"})
	if err != nil {
		t.Fatal(err)
	}
	b := bare.Global()
	b.Ops = b.Ops[1 : len(b.Ops)-1]
	encoded, err := bare.Encode()
	if err != nil {
		t.Fatal(err)
	}
	long := func(data []byte) string {
		return "T" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(data)))) + string(data)
	}
	dictionaries := map[string]string{
		"items behind a mark": "\x80\x02}q\x01(U\x0efeed_var_namesq\x02]q\x03U\x01xq\x04aU\x10program_desc_strq\x05" + long(encoded) +
			"q\x06U\x0ffetch_var_namesq\x07]q\x08U\x0afc_0.tmp_1q\x09au.",
		"one item each": "\x80\x02}U\x10program_desc_str" + long(encoded) + "sU\x0efeed_var_names](X\x01\x00\x00\x00xesU\x0ffetch_var_names](U\x0afc_0.tmp_1es.",
		"wide numbers":  "\x80\x02}r\x01\x00\x00\x00(U\x0efeed_var_names]U\x01xr\x04\x00\x00\x00aU\x0ffetch_var_names]U\x0afc_0.tmp_1aU\x10program_desc_str" + long(encoded) + "u.",
	}
	for name, data := range dictionaries {
		t.Run(name, func(t *testing.T) {
			got, err := program.Decode([]byte(data), program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			requireSameText(t, got, want)
		})
	}
	same := "\x80\x02}(U\x0efeed_var_names]U\x01xq\x04aU\x0ffetch_var_names]h\x04aU\x10program_desc_str" + long(encoded) + "u."
	got, err := program.Decode([]byte(same), program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(got.Targets(), []string{"x"}) || !bytes.Contains([]byte(same), []byte("h\x04")) {
		t.Errorf("targets %v, want the string with number 4", got.Targets())
	}
}
