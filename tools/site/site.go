package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

//go:embed page
var assets embed.FS

// A page is one file of the site.
type page struct {
	File  string // in the site
	Title string
	Body  template.HTML
	words string // that are searched
}

// A site is written page by page.
type site struct {
	root  string // of the repository
	pages []*page
	from  map[string]string // files of the repository, by path from its root, as files of the site
	todo  []string          // of from, whose pages are not made yet
}

// write writes the site to a directory, which is removed before, and returns how many pages it has. Each link of a page leads to a file of the site or to another site; a link to a file of the repository that
// is no page leads to a page with its text.
func write(root, out string) (int, error) {
	s := &site{root: root, from: map[string]string{}}
	s.file("README.md")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return 0, err
	}
	for _, p := range pages {
		s.file("docs/" + filepath.Base(p))
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return 0, err
	}
	for len(s.todo) > 0 {
		next := s.todo[0]
		s.todo = s.todo[1:]
		if err := s.read(next, out); err != nil {
			return 0, fmt.Errorf("%s: %w", next, err)
		}
	}
	for _, folder := range []string{"layers", "optimizer"} {
		p, err := examples(root, folder)
		if err != nil {
			return 0, err
		}
		s.pages = append(s.pages, p)
	}
	return len(s.pages), s.writePages(out)
}

// file returns the file of the site for a file of the repository, which gets a page.
func (s *site) file(at string) string {
	if known, ok := s.from[at]; ok {
		return known
	}
	name := strings.ReplaceAll(strings.TrimPrefix(at, "docs/"), "/", "-")
	switch {
	case at == "README.md":
		name = "index.html"
	case isPicture(at):
	case strings.HasSuffix(at, ".md"):
		name = strings.TrimSuffix(name, ".md") + ".html"
	default:
		name += ".html"
	}
	s.from[at] = name
	s.todo = append(s.todo, at)
	return name
}

func isPicture(at string) bool { return slices.Contains([]string{".png", ".svg"}, path.Ext(at)) }

// read makes the page of a file of the repository, or copies a picture.
func (s *site) read(at, out string) error {
	b, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(at)))
	if err != nil {
		return err
	}
	if isPicture(at) {
		return os.WriteFile(filepath.Join(out, s.from[at]), b, 0o666)
	}
	p := &page{File: s.from[at], Title: at}
	s.pages = append(s.pages, p)
	if !strings.HasSuffix(at, ".md") {
		p.Body = template.HTML("<h1>" + template.HTMLEscapeString(at) + "</h1>" + code(string(b)))
		return nil
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	root := markdown.Parser().Parse(text.NewReader(b), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{used: map[string]int{}}))))
	err = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				n.Destination = []byte(s.link(at, string(n.Destination)))
			}
		case *ast.Image:
			if entering {
				n.Destination = []byte(s.link(at, string(n.Destination)))
			}
		case *ast.Heading:
			if entering && n.Level == 1 && p.Title == at {
				p.Title = strings.ReplaceAll(string(n.Lines().Value(b)), "`", "")
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, b, root); err != nil {
		return err
	}
	p.Body, p.words = template.HTML(body.String()), string(b)
	return nil
}

// link returns where a link of a file of the repository leads in the site.
func (s *site) link(at, to string) string {
	target, fragment, cut := strings.Cut(to, "#")
	if strings.Contains(target, ":") || target == "" {
		return to
	}
	target = path.Join(path.Dir(at), target)
	if info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(target))); err == nil && info.IsDir() {
		target += "/README.md"
	}
	if to = s.file(target); cut {
		to += "#" + fragment
	}
	return to
}

// anchors gives headings the fragments by which the pages link to them.
type anchors struct{ used map[string]int }

var noWord = regexp.MustCompile(`[^a-z0-9 _-]`)

// Generate returns the fragment of a heading.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(string(util.TrimRightSpace(util.TrimLeftSpace(value)))), ""), " ", "-")
	n := a.used[id]
	if a.used[id]++; n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put notes a fragment that the text of a page names itself.
func (a *anchors) Put(value []byte) { a.used[string(value)]++ }

func code(text string) string {
	return "<pre><code>" + template.HTMLEscapeString(text) + "</code></pre>"
}

// tags are what is no word of a page. Hyphens stay where they are a part of one: flags such as --stop-when are searched for.
var tags = regexp.MustCompile("[`*|#>\\[\\]()]+|-{3,}|(?m:^\\s*-\\s)|https?://\\S+")

// writePages writes pages, assets and the index of the search.
func (s *site) writePages(out string) error {
	layout, err := template.ParseFS(assets, "page/page.html")
	if err != nil {
		return err
	}
	type entry struct{ File, Title, Words string }
	var menu []*page
	var index []entry
	for _, p := range s.pages {
		if p.words != "" {
			menu = append(menu, p)
			index = append(index, entry{p.File, p.Title, strings.Join(strings.Fields(tags.ReplaceAllString(p.words, " ")), " ")})
		}
	}
	for _, p := range s.pages {
		var b bytes.Buffer
		err := layout.Execute(&b, struct {
			*page
			Menu []*page
		}{p, menu})
		if err := errors.Join(err, os.WriteFile(filepath.Join(out, p.File), b.Bytes(), 0o666)); err != nil {
			return err
		}
	}
	words, err := json.Marshal(index)
	if err != nil {
		return err
	}
	// As a script, since a page that is opened as a file may read no other one.
	if err := os.WriteFile(filepath.Join(out, "index.js"), slices.Concat([]byte("const pages = "), words, []byte(";\n")), 0o666); err != nil {
		return err
	}
	for _, name := range []string{"style.css", "search.js"} {
		b, err := fs.ReadFile(assets, "page/"+name)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, name), b, 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
