package layers_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
