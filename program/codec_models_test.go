package program_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/edl-go/edl/proto/framework"
)

func TestRealModelsSurviveARoundTrip(t *testing.T) {
	for name, data := range models(t) {
		t.Run(name, func(t *testing.T) {
			p := decode(t, data)
			again := encode(t, p)
			original, rewritten := new(framework.ProgramDesc), new(framework.ProgramDesc)
			if err := proto.Unmarshal(data, original); err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(again, rewritten); err != nil {
				t.Fatal(err)
			}
			// Generation D keeps the version in field 4, and defaults and orders have no meaning.
			if original.Version == nil {
				original.Version = original.LegacyVersion
			}
			if original.Version == nil {
				original.Version = new(framework.Version)
			}
			original.LegacyVersion = nil
			if rewritten.LegacyVersion != nil {
				t.Error("the version is still in field 2")
			}
			normalize(original.ProtoReflect())
			normalize(rewritten.ProtoReflect())
			if !proto.Equal(original, rewritten) {
				t.Error("the file changed its meaning")
			}
			if !bytes.Equal(again, encode(t, decode(t, again))) {
				t.Error("encoding twice gives other bytes")
			}
		})
	}
}

// normalize drops optional fields that hold their default and sorts what has no order.
func normalize(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			list := value.List()
			for i := range list.Len() {
				normalize(list.Get(i).Message())
			}
		case field.Message() != nil:
			normalize(value.Message())
		case !field.IsList() && field.HasPresence() && value.Equal(field.Default()) && m.Descriptor().Name() != "Attr":
			m.Clear(field)
		}
		return true
	})
	switch desc := m.Interface().(type) {
	case *framework.BlockDesc:
		slices.SortFunc(desc.Vars, func(a, b *framework.VarDesc) int { return strings.Compare(a.GetName(), b.GetName()) })
	case *framework.OpDesc:
		bySlot := func(a, b *framework.OpDesc_Var) int { return strings.Compare(a.GetParameter(), b.GetParameter()) }
		slices.SortFunc(desc.Inputs, bySlot)
		slices.SortFunc(desc.Outputs, bySlot)
		slices.SortFunc(desc.Attrs, func(a, b *framework.OpDesc_Attr) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
}
