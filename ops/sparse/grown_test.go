package sparse_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/tensor"
)

// A field of several keys gets a last axis of extent 1 before it is looked up. Its elements are keys as those of a field that is looked up as it is.
func TestKeyFieldsAreThoseThatAProgramReads(t *testing.T) {
	m := layers.NewModel()
	keys := layers.DType(tensor.Int64)
	user, items := layers.Data(m, "user", layers.Dims(1), keys), layers.Data(m, "items", layers.Dims(2, 3), keys)
	layers.SparseEmbedding(user, 64, 4)
	flat := layers.Reshape(items, []int64{-1, 6})
	layers.SparseEmbedding(layers.Reshape(flat, []int64{-1, 6, 1}), 64, 4)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	if names := sparse.KeyFields(p); !slices.Equal(names, []string{"user", "items"}) {
		t.Errorf("keys are in %v, want them in user and items", names)
	}
}
