package checkpoint

import (
	"context"
	"errors"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/edl-go/edl/fault"
)

// A bucket is a store in an object store. Its drivers make an object visible only when it is whole.
type bucket struct {
	where string
	blobs *blob.Bucket
}

func openBucket(ctx context.Context, where string) (*bucket, error) {
	u, err := url.Parse(where)
	if err != nil || u.Fragment != "" {
		return nil, fault.E(fault.InvalidArgument, fault.Got("URL "+fault.Quote(where)), fault.Want("such as s3://bucket/folder"), fault.Cause(err))
	}
	prefix := strings.Trim(u.Path, "/")
	u.Path, u.RawPath = "", ""
	if mux := blob.DefaultURLMux(); !mux.ValidBucketScheme(u.Scheme) {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("URL scheme "+fault.Quote(u.Scheme)),
			fault.Want("one of "+strings.Join(mux.BucketSchemes(), ", ")), fault.Hint("import the driver of gocloud.dev/blob in the program"))
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, failed(ctx, where, err)
	}
	if prefix != "" {
		b = blob.PrefixedBucket(b, prefix+"/")
	}
	return &bucket{where, b}, nil
}

// failed gives the error of a driver its kind.
func failed(ctx context.Context, where string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fault.E(fault.Canceled, fault.At(where), fault.Cause(cause))
	}
	kind := fault.Unavailable
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		kind = fault.NotFound
	case gcerrors.InvalidArgument, gcerrors.PermissionDenied:
		kind = fault.InvalidArgument
	}
	return fault.E(kind, fault.At(where), fault.Cause(err))
}

func (b *bucket) create(ctx context.Context, name string, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.blobs.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return failed(ctx, b.where, err)
	}
	if err := write(w); err != nil {
		cancel() // so that Close drops the object
		_ = w.Close()
		var f *fault.Fault
		if errors.As(err, &f) {
			return err
		}
		return fault.E(fault.Unavailable, fault.At(b.where), fault.Cause(err))
	}
	if err := w.Close(); err != nil {
		return failed(ctx, b.where, err)
	}
	return nil
}

func (b *bucket) open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.blobs.NewRangeReader(ctx, name, offset, length, nil)
	if err != nil {
		return nil, failed(ctx, b.where+"/"+name, err)
	}
	return r, nil
}

// maxListed bounds the objects that a store may list.
const maxListed = 1 << 20

func (b *bucket) list(ctx context.Context) ([]string, error) {
	var list []string
	objects := b.blobs.List(nil)
	for looked := 0; ; looked++ {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.Sort(list)
			return list, nil
		}
		if err != nil {
			return nil, failed(ctx, b.where, err)
		}
		if looked == maxListed {
			return nil, fault.E(fault.TooLarge, fault.At(b.where), fault.Gotf("more than %d objects", maxListed), fault.Want("a folder of its own"))
		}
		if dir, base := path.Split(o.Key); base != "" && isName(strings.TrimSuffix(dir, "/")) {
			list = append(list, o.Key)
		}
	}
}

func (b *bucket) remove(ctx context.Context, checkpoint string, names []string) error {
	for _, name := range names {
		if err := b.blobs.Delete(ctx, checkpoint+"/"+name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return failed(ctx, b.where+"/"+checkpoint, err)
		}
	}
	return nil
}

func (b *bucket) close() error { return fault.Wrap(fault.Unavailable, b.where, b.blobs.Close()) }
