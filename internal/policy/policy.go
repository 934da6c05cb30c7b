// Package policy says which files, folders and buckets a job may read and write, and opens them so that no link leads anywhere else.
//
// Files in reading order: policy.go has what is allowed; guard.go what never is; files.go opens it.
//
// A policy belongs to a listener. It travels with the context of a job, and with the RoleSpec of each of its roles: what opens a file that a submitter has named asks
// the policy of its context. Without a policy a job may do what its process may.
package policy

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
)

// Modes of the files and folders of models, less what umask takes: only their owner writes them, and only the group may read them.
const (
	FileMode   = 0o640
	FolderMode = 0o750
)

// Places are folders with all that is below them, and buckets.
type Places struct {
	All  bool     // whatever the process reaches; List is empty
	List []string // absolute paths of folders, and URLs of buckets or of folders in them. The query of a URL, such as an endpoint, is part of it
}

// A Policy says what a job may read and write. What may be written may also be read. A nil Policy allows all.
type Policy struct {
	Read  Places
	Write Places
	Own   []string // folders that the listener itself has named, such as the one for checkpoints of the job. Both is allowed there
	// Guarded are folders and files of the listener, absolute: its data folder, its authority. Neither is allowed there, whatever the rest says, but in Own below them.
	Guarded []string
}

// The flags of the listener, as errors name them.
const (
	ReadFlag  = "--allow-data"
	WriteFlag = "--allow-save"
)

// ParsePlaces checks a list of what is allowed and puts it into its normal form.
func ParsePlaces(flag string, list []string) (Places, error) {
	var p Places
	for _, place := range list {
		normal, err := parsePlace(place)
		if err != nil {
			return Places{}, err.In(flag, ": ")
		}
		p.List = append(p.List, normal)
	}
	return p, nil
}

func parsePlace(place string) (string, *fault.Fault) {
	wrong := func(got, want string, cause error) (string, *fault.Fault) {
		return "", fault.E(fault.InvalidArgument, fault.Got(got+fault.Quote(place)), fault.Want(want), fault.Cause(cause))
	}
	if !bucket.IsURL(place) {
		if place == "" {
			return wrong("", "a folder, or a URL such as s3://bucket/folder", nil)
		}
		if strings.ContainsAny(place, "*?[\\") {
			return wrong("the pattern ", "the name of a folder: all below it is allowed", nil)
		}
		dir, err := filepath.Abs(place)
		if err != nil {
			return wrong("folder ", "one with an absolute path", err)
		}
		return dir, nil
	}
	u, err := url.Parse(place)
	if err != nil {
		return wrong("", "a folder, or a URL such as s3://bucket/folder", err)
	}
	if u.Scheme == "file" || u.Fragment != "" || u.User != nil {
		return wrong("URL ", "a path in place of file://, and no user or fragment", nil)
	}
	return place, nil
}

// Also returns a policy that allows folders of the listener, too.
func (p *Policy) Also(folders ...string) *Policy {
	if p == nil {
		return nil
	}
	more := *p
	more.Own = slices.Clone(p.Own)
	for _, folder := range folders {
		if folder != "" {
			more.Own = append(more.Own, folder)
		}
	}
	return &more
}

// CheckRead refuses a path, pattern or URL that a job may not read (fault.Denied).
func (p *Policy) CheckRead(name string) error {
	if !p.ReadsAll() {
		if _, err := p.find(name, ReadFlag, "read", p.Read.List, p.Write.List, p.Own); err != nil {
			return err
		}
	}
	return p.guard(name, "read", false)
}

// CheckWrite refuses a path or URL that a job may not write (fault.Denied).
func (p *Policy) CheckWrite(name string) error {
	if p != nil && !p.Write.All {
		if _, err := p.find(name, WriteFlag, "write", p.Write.List, p.Own); err != nil {
			return err
		}
	}
	return p.guard(name, "write", true)
}

// find returns the place that a name lies in.
func (p *Policy) find(name, flag, verb string, lists ...[]string) (string, error) {
	isURL := bucket.IsURL(name)
	var allowed []string // of the same sort, for the error
	for _, list := range lists {
		for _, place := range list {
			if bucket.IsURL(place) != isURL {
				continue
			}
			if isURL && urlWithin(name, place) || !isURL && pathWithin(name, place) {
				return place, nil
			}
			if !slices.Contains(allowed, place) {
				allowed = append(allowed, place)
			}
		}
	}
	got := fault.Quote(name) + ", which a job may not " + verb + " at this listener"
	switch {
	case !isURL && !filepath.IsAbs(name):
		got += ": a path that depends on the working directory"
	case !isURL && slices.Contains(strings.Split(filepath.ToSlash(name), "/"), ".."):
		got += ": a path with \"..\""
	}
	want := "a place that the listener allows: it allows none of this sort"
	if len(allowed) > 0 {
		want = "a place below " + strings.Join(allowed, " or ")
		if isURL {
			want += ", with the same query"
		}
	}
	return "", fault.E(fault.Denied, fault.At("policy of the listener"), fault.Got(got), fault.Want(want),
		fault.Hint("who runs the listener allows a place with \""+flag+" PLACE\""))
}

// pathWithin reports whether a path or pattern, by its name, lies in a folder.
func pathWithin(name, folder string) bool {
	if !filepath.IsAbs(name) || strings.ContainsRune(name, 0) || slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "..") {
		return false
	}
	relative, err := filepath.Rel(folder, name)
	return err == nil && filepath.IsLocal(relative)
}

// urlWithin reports whether the objects of a URL lie in a place. The two have the same bucket and query: a query chooses the server and the credentials that are
// sent there.
func urlWithin(name, place string) bool {
	u, err := url.Parse(name)
	if err != nil || u.Fragment != "" || u.User != nil || u.Opaque != "" {
		return false
	}
	in, err := url.Parse(place)
	if err != nil || u.Scheme != in.Scheme || u.Host != in.Host || u.RawQuery != in.RawQuery {
		return false
	}
	folder := strings.TrimSuffix(in.Path, "/")
	return strings.HasPrefix(u.Path+"/", folder+"/") && !slices.Contains(strings.Split(u.Path, "/"), "..")
}

type key struct{}

// With returns a context for work of a job with a policy.
func With(ctx context.Context, p *Policy) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the policy of a context; nil: there is none.
func From(ctx context.Context) *Policy {
	p, _ := ctx.Value(key{}).(*Policy)
	return p
}
