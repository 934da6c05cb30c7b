// Package lint holds the rules of the house that a machine can check, as tests over the sources.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/edl-go/edl/"

// A file is one parsed Go file. Its folder is relative to the root of the module.
type file struct {
	folder, name string
	set          *token.FileSet
	*ast.File
}

func (f file) test() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f file) at(n ast.Node) string {
	return path.Join(f.folder, f.name) + ":" + strings.TrimPrefix(f.set.Position(n.Pos()).String(), f.set.Position(n.Pos()).Filename+":")
}

// files parses every Go file that somebody has written by hand.
func files(t *testing.T) (all []file) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != root:
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, ".pb.go"):
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(p))
		all = append(all, file{filepath.ToSlash(folder), d.Name(), set, parsed})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// receiver is the name of the type that a method belongs to, empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// A type with more than 20 methods is several types.
func TestTypesAreSmall(t *testing.T) {
	methods := map[string]int{}
	for _, f := range files(t) {
		if f.test() {
			continue
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && receiver(d) != "" {
				methods[f.folder+"."+receiver(d)]++
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods[name] && n > 20 {
			t.Errorf("%s has %d methods, want at most 20", name, n)
		}
	}
}

// maxMethods are the types that may have more, each with its reason.
var maxMethods = map[string]int{
	"remote/listen.Server": 22, // one for each call of its service
}

// Every exported name of a package that users import has a comment.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, f := range files(t) {
		if f.test() || f.Name.Name == "main" || strings.Contains(f.folder, "internal") {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (receiver(d) == "" || ast.IsExported(receiver(d))) && d.Doc == nil {
					t.Errorf("%s: %s has no comment", f.at(d), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						t.Errorf("%s: %s has no comment", f.at(s), s.Name.Name)
					}
				}
			}
		}
	}
}

// rooms are the top-level folders from the highest floor to the lowest. A package imports only rooms below its own.
var rooms = [][]string{
	{"cmd", "examples", "docs", "internal"},
	{"edlcmd"},
	{"bench"},
	{"serving"},
	{"remote"},
	{"transpiler", "executor", "layers", "optimizer"},
	{"ops", "metrics"},
	{"program", "dataset"},
	{"proto", "tensor"},
	{"fault"},
}

// within are imports inside of one floor that are meant: layers build programs for the executor to run, and optimizers extend models.
var within = map[string][]string{
	"optimizer":  {"layers"},
	"bench":      {"layers", "optimizer", "executor"},
	"remote":     {"transpiler", "executor"},
	"executor":   {"dataset"},
	"transpiler": {},
}

// Imports run one way.
func TestImportsRunOneWay(t *testing.T) {
	floor := map[string]int{}
	for i, names := range rooms {
		for _, name := range names {
			floor[name] = i
		}
	}
	for _, f := range files(t) {
		room, _, _ := strings.Cut(f.folder, "/")
		if f.test() || room == "." || room == "internal" || room == "tools" || f.folder == "executor/internal/fixture" { // a kit of tests
			continue
		}
		own, ok := floor[room]
		if !ok {
			t.Errorf("%s is in no room: add it to rooms", f.folder)
			continue
		}
		for _, i := range f.Imports {
			name := strings.Trim(i.Path.Value, `"`)
			if !strings.HasPrefix(name, module) {
				continue
			}
			other, _, _ := strings.Cut(strings.TrimPrefix(name, module), "/")
			if other == room || other == "internal" || slices.Contains(within[room], other) {
				continue
			}
			if there, ok := floor[other]; !ok || there <= own {
				t.Errorf("%s imports %s, which is not below it", f.at(i), other)
			}
		}
	}
}

// Only a main package ends the process, and no test sleeps by the clock of the machine or leaves itself out without a reason that it prints.
func TestNobodyEndsTheProcess(t *testing.T) {
	for _, f := range files(t) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch name := x.Name + "." + s.Sel.Name; name {
			case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln":
				if f.Name.Name != "main" && !f.test() {
					t.Errorf("%s: %s in a library", f.at(n), name)
				}
			}
			return true
		})
	}
}

// gone are words that a newcomer had to ask about. docs/glossary.md has the words to use.
var gone = regexp.MustCompile(`(?i)\b(crew|unman|manned|bereft|teller|deposed)\b`)

// Private words do not come back.
func TestWords(t *testing.T) {
	for _, f := range files(t) {
		if f.folder == "internal/lint" {
			continue
		}
		for _, group := range f.Comments {
			for _, word := range gone.FindAllString(group.Text(), -1) {
				t.Errorf("%s says %q", f.at(group), word)
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if gone.MatchString(n.Name) {
					t.Errorf("%s: the name %s", f.at(n), n.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && gone.MatchString(n.Value) {
					t.Errorf("%s says %s", f.at(n), n.Value)
				}
			}
			return true
		})
	}
}
