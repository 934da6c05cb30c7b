// Package bucket reads the objects of buckets as files, and opens buckets for those who write them: s3://bucket/key, file:///dir/key, and every other
// scheme whose driver the program has registered with gocloud.dev/blob.
package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // for file:///
	"gocloud.dev/gcerrors"
)

// IsURL distinguishes a URL from a path of this machine.
func IsURL(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range []byte(scheme) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return false
		}
	}
	return true
}

// CheckPlace refuses a path such as s3:/bucket, which is a URL with a slash too few: a folder "s3:" would be made of it.
func CheckPlace(name string) error {
	scheme, rest, ok := strings.Cut(name, ":/")
	if ok && !strings.HasPrefix(rest, "/") && slices.Contains([]string{"s3", "gs", "azblob", "file"}, scheme) {
		return fault.E(fault.InvalidArgument, fault.At(name), fault.Gotf("%s:/ with one slash", scheme), fault.Wantf("%s://%s, or ./%s for a folder", scheme, rest, name))
	}
	return nil
}

// A Cache opens buckets and keeps them open, with their connections. The zero Cache is empty. It is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex
	open map[string]*blob.Bucket
}

// An address is the place of an object, or of all objects that match a pattern.
type address struct {
	bucket url.URL // for the scheme file the path of a folder; for others the path is empty
	key    string
}

// parse splits a URL. The query, such as ?region=eu-north-1, is for the driver of the bucket.
func parse(name string, pattern bool) (address, error) {
	u, err := url.Parse(name)
	if err == nil && u.Fragment != "" {
		err = errors.New("a URL with a fragment")
	}
	if err != nil {
		return address{}, fault.E(fault.InvalidArgument, fault.Got("URL "+fault.Quote(name)), fault.Want("such as s3://bucket/folder/name"),
			fault.Cause(err))
	}
	a := address{bucket: *u, key: strings.TrimPrefix(u.Path, "/")}
	a.bucket.Path, a.bucket.RawPath = "", ""
	if u.Scheme == "file" { // a bucket is a folder
		folder := u.Path
		if pattern {
			folder = Literal(folder)
		}
		folder = folder[:strings.LastIndexByte(folder, '/')+1]
		a.bucket.Path, a.key = path.Clean("/"+folder), u.Path[len(folder):]
	}
	if a.key == "" || strings.HasSuffix(a.key, "/") {
		return address{}, fault.E(fault.InvalidArgument, fault.Got("URL "+fault.Quote(name)),
			fault.Want("one that names objects, such as s3://bucket/folder/name-*"))
	}
	return a, nil
}

// name is the URL of an object in the same bucket.
func (a address) name(key string) string {
	u := a.bucket
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + key
	return u.String()
}

// Literal is the part of a pattern before the first wildcard.
func Literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

func (c *Cache) bucket(ctx context.Context, a address) (*blob.Bucket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := a.bucket.String()
	if b := c.open[name]; b != nil {
		return b, nil
	}
	b, err := openBucket(ctx, a.bucket)
	if err != nil {
		return nil, err
	}
	if c.open == nil {
		c.open = map[string]*blob.Bucket{}
	}
	c.open[name] = b
	return b, nil
}

// openBucket opens a bucket with the driver of its scheme.
func openBucket(ctx context.Context, u url.URL) (*blob.Bucket, error) {
	name := u.String()
	if mux := blob.DefaultURLMux(); !mux.ValidBucketScheme(u.Scheme) {
		return nil, fault.E(fault.InvalidArgument, fault.At(name), fault.Got("URL scheme "+fault.Quote(u.Scheme)),
			fault.Want("one of "+strings.Join(mux.BucketSchemes(), ", ")), fault.Hint("import the driver of gocloud.dev/blob in the program"))
	}
	b, err := blob.OpenBucket(ctx, name)
	if err != nil {
		return nil, Failed(ctx, name, err)
	}
	return b, nil
}

// OpenFolder opens the objects below a URL such as s3://bucket/folder: their names begin there. The caller closes the bucket.
func OpenFolder(ctx context.Context, name string) (*blob.Bucket, error) {
	u, err := url.Parse(name)
	if err != nil || u.Fragment != "" || u.Host == "" {
		return nil, fault.E(fault.InvalidArgument, fault.Got("URL "+fault.Quote(name)), fault.Want("such as s3://bucket/folder"), fault.Cause(err))
	}
	folder := strings.Trim(u.Path, "/")
	u.Path, u.RawPath = "", ""
	b, err := openBucket(ctx, *u)
	if err != nil || folder == "" {
		return b, err
	}
	return blob.PrefixedBucket(b, folder+"/"), nil
}

// Close closes the buckets. Open objects are invalid then. The Cache can be used again.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.open)) {
		if err := c.open[name].Close(); err != nil {
			errs = append(errs, fault.Wrap(fault.Unavailable, name, err))
		}
	}
	c.open = nil
	return errors.Join(errs...)
}

// Failed gives the error of a driver its kind.
func Failed(ctx context.Context, where string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		kind := fault.Canceled
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = fault.DeadlineExceeded
		}
		return fault.Wrap(kind, where, cause)
	}
	kind, code := fault.Unavailable, gcerrors.Code(err)
	switch {
	case code == gcerrors.NotFound, errors.Is(err, fs.ErrNotExist): // the driver of folders returns the latter without a code
		kind = fault.NotFound
	case code == gcerrors.InvalidArgument, code == gcerrors.PermissionDenied:
		kind = fault.InvalidArgument
	}
	f := fault.E(kind, fault.At(where), fault.Cause(err))
	if kind == fault.Unavailable && strings.Contains(err.Error(), noCredentials) {
		f.Hint = "give credentials, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use none: ?anonymous=true"
	}
	return f
}

// noCredentials lists messages of the driver of S3 if it has found no credentials. These errors have no code, and their types belong to a package
// that only comes with the driver.
const noCredentials = "failed to refresh cached credentials"

// A File is an object of a bucket.
type File struct {
	Name    string // its URL
	Base    string // the name after the last slash
	Bytes   int64
	Changed time.Time
}

// maxListed bounds the objects that one pattern may list.
const maxListed = 1 << 20

// List returns the objects of a URL whose path is a pattern in the syntax of path.Match, sorted. Write the question mark of a pattern as %3F in a
// URL.
func (c *Cache) List(ctx context.Context, pattern string) ([]File, error) {
	a, err := parse(pattern, true)
	if err != nil {
		return nil, err
	}
	if _, err := path.Match(a.key, ""); err != nil {
		return nil, fault.E(fault.InvalidArgument, fault.At("URL "+fault.Quote(pattern)), fault.Cause(err),
			fault.Want("a pattern of *, %3F and [a-z]; put a backslash before a literal one"))
	}
	b, err := c.bucket(ctx, a)
	if err != nil {
		return nil, err
	}
	options := &blob.ListOptions{Prefix: Literal(a.key)}
	if !strings.Contains(a.key[len(options.Prefix):], "/") {
		options.Delimiter = "/" // objects in deeper folders cannot match
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
			return nil, Failed(ctx, pattern, err)
		}
		if looked == maxListed {
			return nil, fault.E(fault.TooLarge, fault.At(pattern), fault.Gotf("more than %d objects", maxListed), fault.Want("a longer prefix"))
		}
		if ok, _ := path.Match(a.key, o.Key); ok && !o.IsDir {
			files = append(files, File{Name: a.name(o.Key), Base: path.Base(o.Key), Bytes: o.Size, Changed: o.ModTime})
		}
	}
}

// Beside returns the URL of an object in the folder of a pattern: the part before the last slash that precedes every wildcard.
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
		return File{}, Failed(ctx, name, err)
	}
	return File{Name: name, Base: path.Base(a.key), Bytes: attributes.Size, Changed: attributes.ModTime}, nil
}
