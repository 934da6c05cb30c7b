package layers_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// A sketch is a model with the batch that its examples feed.
type sketch struct {
	*layers.Model
	feed executor.Feed
}

func newSketch() *sketch { return &sketch{layers.NewModel().Seed(1), executor.Feed{}} }

// numbers declares a variable whose records have the given width, and feeds these values.
func (s *sketch) numbers(name string, width int64, values ...float32) layers.Variable {
	s.feed[name], _ = tensor.FromSlice(values, int64(len(values))/width, width)
	return layers.Data(s.Model, name, layers.Dims(width))
}

// classes declares a variable that holds one whole number for each record, and feeds these.
func (s *sketch) classes(name string, values ...int64) layers.Variable {
	s.feed[name], _ = tensor.FromSlice(values, int64(len(values)), 1)
	return layers.Data(s.Model, name, layers.Dims(1), layers.DType(tensor.Int64))
}

// print computes variables and prints a line for each: its dims, and its values to three digits.
func (s *sketch) print(variables ...layers.Variable) {
	p, err := s.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.Name()
	}
	local := executor.New()
	defer local.Close()
	values, err := local.Run(context.Background(), p, s.feed, names...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range values {
		switch t.DType() {
		case tensor.Float32:
			fmt.Printf("%v %.3g\n", t.Dims(), t.Float32s())
		case tensor.Float64:
			fmt.Printf("%v %.3g\n", t.Dims(), t.Float64s())
		case tensor.Int64:
			fmt.Println(t.Dims(), t.Int64s())
		case tensor.Int32:
			fmt.Println(t.Dims(), t.Int32s())
		case tensor.Bool:
			fmt.Println(t.Dims(), t.Bools())
		}
	}
}

// entryResults are the types by whose constructors users build a model. Options are shown where they are used.
var entryResults = []string{"Variable", "Reader", "Outputs", "Initializer", "Regularizer"}

func TestEveryEntryPointHasAnExample(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	examples := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			if name, ok := strings.CutPrefix(f.Name.Name, "Example"); ok {
				examples[name] = true
			} else if f.Name.IsExported() && !strings.HasSuffix(path, "_test.go") && isEntry(f) {
				entries = append(entries, f.Name.Name)
			}
		}
	}
	if !slices.Contains(entries, "FC") || !slices.Contains(entries, "Read") {
		t.Fatalf("the search found no entry points such as FC and Read, only %v", entries)
	}
	for _, name := range entries {
		if !examples[name] {
			t.Errorf("%s has no Example", name)
		}
	}
}

// isEntry reports whether a function returns a part of a model, or several.
func isEntry(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	result := f.Type.Results.List[0].Type
	if list, ok := result.(*ast.ArrayType); ok {
		result = list.Elt
	}
	name, ok := result.(*ast.Ident)
	return ok && slices.Contains(entryResults, name.Name)
}

// labels declares a variable that holds a whole number for each row of sequences, and feeds these.
func (s *sketch) labels(name string, lengths []int64, values ...int64) layers.Variable {
	s.feed[name], _ = tensor.FromSlice(values, int64(len(values)), 1)
	offsets := []int64{0}
	for _, n := range lengths {
		offsets = append(offsets, offsets[len(offsets)-1]+n)
	}
	s.feed[name].SetLoD([][]int64{offsets})
	return layers.Data(s.Model, name, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
}
