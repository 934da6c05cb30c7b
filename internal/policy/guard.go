package policy

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
)

// Guard returns a policy that allows nothing in more folders and files of the listener, and nothing of a folder that they lie in that could name them: who writes
// them takes the place of the listener. Own folders below them stay allowed.
func (p *Policy) Guard(places ...string) *Policy {
	more := Policy{Read: Places{All: true}, Write: Places{All: true}}
	if p != nil {
		more = *p
	}
	more.Guarded = slices.Clone(more.Guarded)
	for _, place := range places {
		if place != "" && !slices.Contains(more.Guarded, place) {
			more.Guarded = append(more.Guarded, place)
		}
	}
	if len(more.Guarded) == 0 {
		return p
	}
	return &more
}

// guard refuses a path, pattern or URL of a file that is guarded, by its name or through links. With whole also a folder in which something guarded lies is refused:
// names of variables become names of files below it.
func (p *Policy) guard(name, verb string, whole bool) error {
	if p == nil || len(p.Guarded) == 0 {
		return nil
	}
	path := localPath(name)
	if path == "" {
		return nil
	}
	paths := []string{filepath.Clean(path)}
	if real := resolve(path); real != paths[0] {
		paths = append(paths, real)
	}
	for _, place := range p.Guarded {
		for _, path := range paths {
			how := ""
			if lies(path, place) && !ownIn(p, place, path) {
				how = ", which is or lies in " + fault.Quote(place)
			} else if whole && (lies(place, path) || lies(resolve(place), path)) {
				how = ", in which " + fault.Quote(place) + " lies"
			}
			if how != "" {
				return fault.E(fault.Denied, fault.At("policy of the listener"), fault.Got(fault.Quote(name)+how+": no job may "+verb+" what the listener itself keeps, such as its data folder and its authority"),
					fault.Want("another place"), fault.Hint("this holds whatever \""+ReadFlag+"\" and \""+WriteFlag+"\" say; a job goes on from checkpoints in the data folder with \"edl jobs resume JOB\""))
			}
		}
	}
	return nil
}

// ownIn reports whether a path lies in an own folder that lies below a guarded place.
func ownIn(p *Policy, place, path string) bool {
	return slices.ContainsFunc(p.Own, func(own string) bool {
		return !bucket.IsURL(own) && lies(own, place) && !lies(place, own) && lies(path, own)
	})
}

// localPath is the absolute path of a file or folder of this machine; of a pattern the folder before its first wildcard. It is empty for objects of buckets.
func localPath(name string) string {
	if name == "" || strings.ContainsRune(name, 0) {
		return ""
	}
	path := name
	if bucket.IsURL(name) {
		u, err := url.Parse(name)
		if err != nil || u.Scheme != "file" {
			return ""
		}
		path = filepath.FromSlash(u.Path)
	}
	if i := strings.IndexAny(path, "*?["); i >= 0 {
		if _, err := os.Lstat(path); err != nil { // it is no file with such a name
			path = path[:strings.LastIndexByte(filepath.ToSlash(path[:i]), '/')+1]
		}
	}
	if filepath.IsAbs(path) {
		return path // not cleaned: ".." behind a link is above what it leads to
	}
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	return here + string(filepath.Separator) + path
}

// maxLinks bounds the links that are followed to what is not there yet.
const maxLinks = 40

// resolve is where an absolute path leads. What is missing of it may be made later and stays as it is named.
func resolve(path string) string {
	rest := ""
	for links := 0; ; {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(real, rest)
		}
		path = strings.TrimRight(path, string(filepath.Separator))
		if to, err := os.Readlink(path); err == nil && links < maxLinks { // it leads to what is missing
			if links++; !filepath.IsAbs(to) {
				to = path[:strings.LastIndexByte(path, filepath.Separator)+1] + to
			}
			path = to
			continue
		}
		i := strings.LastIndexByte(path, filepath.Separator)
		if i < 0 {
			return filepath.Join(path, rest)
		}
		path, rest = path[:i+1], filepath.Join(path[i+1:], rest)
		if i == 0 && path == string(filepath.Separator) {
			return filepath.Join(path, rest)
		}
	}
}

// lies reports whether a path is a place or lies below it: by its name, or because a folder above it is the same one under another name.
func lies(path, place string) bool {
	if relative, err := filepath.Rel(place, path); err == nil && filepath.IsLocal(relative) {
		return true
	}
	is, err := os.Stat(place)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, is) {
			return true
		}
		above := filepath.Dir(path)
		if above == path {
			return false
		}
		path = above
	}
}
