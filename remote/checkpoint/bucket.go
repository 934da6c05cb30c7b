package checkpoint

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/edl-go/edl/fault"
	buckets "github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/policy"
)

// A bucket is a store in an object store. Its drivers make an object visible only when it is whole.
type bucket struct {
	where   string
	blobs   *blob.Bucket
	allowed *policy.Policy
}

func openStore(ctx context.Context, where string) (*bucket, error) {
	b, err := buckets.OpenFolder(ctx, where)
	if err != nil {
		return nil, err
	}
	return &bucket{where, b, policy.From(ctx)}, nil
}

func (b *bucket) create(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := b.allowed.CheckWrite(b.where); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.blobs.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return buckets.Failed(ctx, b.where, err)
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
		return buckets.Failed(ctx, b.where, err)
	}
	return nil
}

func (b *bucket) open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.blobs.NewRangeReader(ctx, name, offset, length, nil)
	if err != nil {
		return nil, buckets.Failed(ctx, b.where+"/"+name, err)
	}
	return r, nil
}

// maxListed bounds the objects that a store may list.
const maxListed = 1 << 20

func (b *bucket) list(ctx context.Context) ([]object, error) {
	var list []object
	objects := b.blobs.List(nil)
	for looked := 0; ; looked++ {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(list, byName)
			return list, nil
		}
		if err != nil {
			return nil, buckets.Failed(ctx, b.where, err)
		}
		if looked == maxListed {
			return nil, fault.E(fault.TooLarge, fault.At(b.where), fault.Gotf("more than %d objects", maxListed), fault.Want("a folder of its own"))
		}
		if dir, base := path.Split(o.Key); base != "" && isName(strings.TrimSuffix(dir, "/")) {
			list = append(list, object{o.Key, o.ModTime, o.Size})
		}
	}
}

func (b *bucket) remove(ctx context.Context, checkpoint string, names []string) error {
	if err := b.allowed.CheckWrite(b.where); err != nil {
		return err
	}
	for _, name := range names {
		if err := b.blobs.Delete(ctx, checkpoint+"/"+name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return buckets.Failed(ctx, b.where+"/"+checkpoint, err)
		}
	}
	return nil
}

func (b *bucket) close() error { return fault.Wrap(fault.Unavailable, b.where, b.blobs.Close()) }
