package bucket

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/edl-go/edl/fault"
)

// A File is an object of a bucket.
type File struct {
	Name    string // its URL
	Base    string // what stands behind the last slash
	Bytes   int64
	Changed time.Time
}

// maxListed bounds the objects that one pattern looks at.
const maxListed = 1 << 20

// List returns the objects that a URL names whose path is a pattern in the syntax of path.Match, sorted. The question mark of that syntax must be
// written %3F in a URL.
func (c *Cache) List(ctx context.Context, pattern string) ([]File, error) {
	a, err := parse(pattern, true)
	if err != nil {
		return nil, err
	}
	if _, err := path.Match(a.key, ""); err != nil {
		return nil, fault.E(fault.InvalidArgument, fault.At("URL "+fault.Quote(pattern)), fault.Cause(err),
			fault.Want("a pattern of *, %3F and [a-z], with a backslash before any of these that is meant as it is"))
	}
	b, err := c.bucket(ctx, a)
	if err != nil {
		return nil, err
	}
	options := &blob.ListOptions{Prefix: Literal(a.key)}
	if !strings.Contains(a.key[len(options.Prefix):], "/") {
		options.Delimiter = "/" // what is further down cannot match
	}
	var files []File
	objects := b.List(options)
	for looked := 0; ; looked++ {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
			return files, nil
		}
		if err != nil {
			return nil, failed(ctx, pattern, err)
		}
		if looked == maxListed {
			return nil, fault.E(fault.TooLarge, fault.At(pattern), fault.Gotf("more than %d objects", maxListed), fault.Want("a longer prefix"))
		}
		if ok, _ := path.Match(a.key, o.Key); ok && !o.IsDir {
			files = append(files, File{Name: a.name(o.Key), Base: path.Base(o.Key), Bytes: o.Size, Changed: o.ModTime})
		}
	}
}

// Beside returns the URL of an object in the folder of a pattern: in front of the last slash before anything that matches more than itself.
func Beside(pattern, name string) (string, error) {
	a, err := parse(pattern, true)
	if err != nil {
		return "", err
	}
	folder := Literal(a.key)
	return a.name(folder[:strings.LastIndexByte(folder, '/')+1] + name), nil
}

// Stat returns an object, or NotFound.
func (c *Cache) Stat(ctx context.Context, name string) (File, error) {
	a, err := parse(name, false)
	if err != nil {
		return File{}, err
	}
	b, err := c.bucket(ctx, a)
	if err != nil {
		return File{}, err
	}
	attributes, err := b.Attributes(ctx, a.key)
	if err != nil {
		return File{}, failed(ctx, name, err)
	}
	return File{Name: name, Base: path.Base(a.key), Bytes: attributes.Size, Changed: attributes.ModTime}, nil
}
