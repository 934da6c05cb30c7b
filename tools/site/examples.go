package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"html/template"
	"path/filepath"
	"slices"
	"strings"
)

// examples returns the page of the examples of a package, each with what it prints, which "go test" checks.
func examples(root, folder string) (*page, error) {
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	all := doc.Examples(parsed...)
	slices.SortFunc(all, func(a, b *doc.Example) int { return strings.Compare(a.Name, b.Name) })
	p := &page{File: folder + "-examples.html", Title: "Examples of " + folder}
	var body, words strings.Builder
	fmt.Fprintf(&body, "<h1>%s</h1>\n<p>Each example is a test of package <code>%s</code>: what stands below it is what it prints.</p>\n", p.Title, folder)
	for _, e := range all {
		if e.Output == "" {
			continue
		}
		var text bytes.Buffer
		if err := printer.Fprint(&text, files, &printer.CommentedNode{Node: e.Code, Comments: e.Comments}); err != nil {
			return nil, err
		}
		id := cmp.Or(e.Name, "package")
		name := strings.ReplaceAll(cmp.Or(e.Name, "The package"), "_", " ")
		fmt.Fprintf(&body, "<h2 id=\"%s\">%s</h2>\n<p>%s</p>\n%s<p>prints</p>\n%s", template.HTMLEscapeString(id), template.HTMLEscapeString(name), template.HTMLEscapeString(e.Doc),
			code(inner(text.String())), code(e.Output))
		fmt.Fprintf(&words, "%s %s %s ", name, e.Doc, text.String())
	}
	p.Body, p.words = template.HTML(body.String()), words.String()
	return p, nil
}

// inner returns the statements of a block, without its braces, its indentation and the comment with the output.
func inner(block string) string {
	block = strings.TrimSuffix(strings.TrimPrefix(block, "{"), "}")
	if at := strings.LastIndex(block, "// Output:"); at >= 0 {
		block = block[:at]
	}
	return strings.TrimSpace(strings.ReplaceAll(block, "\n\t", "\n"))
}
