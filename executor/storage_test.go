package executor_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func TestStorageKeepsTensors(t *testing.T) {
	s, err := executor.NewStorage(filepath.Join(t.TempDir(), "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	saved := []*tensor.Tensor{fixture.Numbers(1, 2, 3), fixture.Labels(2, 4, 9)}
	saved[0].SetLoD([][]int64{{0, 1, 2}})
	if err := s.Save("deep/er/file", saved, false); err != nil {
		t.Fatal(err)
	}
	loaded := []*tensor.Tensor{fixture.Numbers(9, 2, 3), fixture.Labels(9, 4, 9)}
	if err := s.Load("deep/er/file", loaded); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(loaded[0].Float32s(), saved[0].Float32s()) || !slices.Equal(loaded[1].Int64s(), saved[1].Int64s()) || len(loaded[0].LoD()) != 1 {
		t.Error("loaded something else")
	}
}

func TestStorageRefuses(t *testing.T) {
	s, err := executor.NewStorage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	one := []*tensor.Tensor{fixture.Numbers(1, 2)}
	if err := s.Save("file", one, true); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"overwriting":      {s.Save("file", one, false), fault.InvalidArgument},
		"leaving":          {s.Save("../file", one, true), fault.InvalidArgument},
		"a missing file":   {s.Load("nothing", one), fault.NotFound},
		"too few streams":  {s.Load("file", append(one, one...)), fault.Corrupt},
		"too many streams": {s.Load("file", nil), fault.Corrupt},
		"other dims":       {s.Load("file", []*tensor.Tensor{fixture.Numbers(1, 2, 1)}), fault.ShapeMismatch},
		"another type":     {s.Load("file", []*tensor.Tensor{fixture.Labels(1, 2, 1)}), fault.ShapeMismatch},
	} {
		if !errors.Is(test.err, test.kind) {
			t.Errorf("%s: got %v, want %v", name, test.err, test.kind)
		}
	}
}
