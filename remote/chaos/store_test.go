package chaos_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	_ "gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"
)

// A bucket whose URL is failing://store?dir=DIR keeps its objects in a folder of DIR, and fails as the file "fault" in DIR says: every process of a test sees
// the same.
func init() {
	blob.DefaultURLMux().RegisterBucket("failing", opener{})
}

// What a bucket suffers from. Without a file it works.
const (
	unreachable = "unreachable" // every call fails
	full        = "full"        // nothing can be written
	slow        = "slow"        // every call takes slowness
	silent      = "silent"      // no call is answered
)

const slowness = 200 * time.Millisecond

// failingStore returns the URL of a bucket, and what changes its fault; empty: none.
func failingStore(t testing.TB) (string, func(fault string)) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	return "failing://store?dir=" + url.QueryEscape(dir), func(fault string) {
		mu.Lock()
		defer mu.Unlock()
		name := filepath.Join(dir, "fault")
		err := os.WriteFile(name+".new", []byte(fault), 0o644)
		if err == nil {
			err = os.Rename(name+".new", name)
		}
		if err != nil {
			t.Errorf("the fault %q of a store: %v", fault, err)
		}
	}
}

type opener struct{}

func (opener) OpenBucketURL(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	dir := u.Query().Get("dir")
	objects, err := blob.OpenBucket(ctx, "file://"+filepath.ToSlash(filepath.Join(dir, "objects")))
	if err != nil {
		return nil, err
	}
	return blob.NewBucket(&failing{objects: objects, fault: filepath.Join(dir, "fault")}), nil
}

// failing is a bucket that fails as a file says.
type failing struct {
	objects *blob.Bucket
	fault   string // the file
}

// suffer is what a call that reads or writes suffers.
func (f *failing) suffer(ctx context.Context, writes bool) error {
	b, _ := os.ReadFile(f.fault)
	switch string(b) {
	case unreachable:
		return syscall.ECONNREFUSED
	case full:
		if writes {
			return syscall.ENOSPC
		}
	case slow:
		pass(ctx, slowness)
	case silent:
		for ctx.Err() == nil && string(b) == silent {
			pass(ctx, 10*time.Millisecond)
			b, _ = os.ReadFile(f.fault)
		}
	}
	return ctx.Err()
}

func (f *failing) ErrorCode(err error) gcerrors.ErrorCode {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOSPC) {
		return gcerrors.Unknown
	}
	return gcerrors.Code(err)
}
func (f *failing) As(any) bool             { return false }
func (f *failing) ErrorAs(error, any) bool { return false }
func (f *failing) Close() error            { return f.objects.Close() }

func (f *failing) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	if err := f.suffer(ctx, false); err != nil {
		return nil, err
	}
	a, err := f.objects.Attributes(ctx, key)
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{ContentType: a.ContentType, ModTime: a.ModTime, Size: a.Size}, nil
}

func (f *failing) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	if err := f.suffer(ctx, false); err != nil {
		return nil, err
	}
	from := o.PageToken
	if len(from) == 0 {
		from = blob.FirstPageToken
	}
	list, next, err := f.objects.ListPage(ctx, from, 1000, &blob.ListOptions{Prefix: o.Prefix, Delimiter: o.Delimiter})
	page := &driver.ListPage{NextPageToken: next}
	for _, e := range list {
		page.Objects = append(page.Objects, &driver.ListObject{Key: e.Key, ModTime: e.ModTime, Size: e.Size, IsDir: e.IsDir})
	}
	return page, err
}

type reader struct{ *blob.Reader }

func (r reader) As(any) bool { return false }
func (r reader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ContentType: r.ContentType(), ModTime: r.ModTime(), Size: r.Size()}
}

func (f *failing) NewRangeReader(ctx context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	if err := f.suffer(ctx, false); err != nil {
		return nil, err
	}
	r, err := f.objects.NewRangeReader(ctx, key, offset, length, nil)
	return reader{r}, err
}

// A writer suffers when it begins, with each part, and when it ends: a store may fail in the middle of an object.
type writer struct {
	io.WriteCloser
	suffer func() error
	give   context.CancelFunc // drops the object
}

func (w *writer) Write(b []byte) (int, error) {
	if err := w.suffer(); err != nil {
		return 0, err
	}
	return w.WriteCloser.Write(b)
}

func (w *writer) Close() error {
	err := w.suffer()
	if err != nil {
		w.give()
	}
	return errors.Join(err, w.WriteCloser.Close())
}

func (f *failing) NewTypedWriter(ctx context.Context, key, contentType string, _ *driver.WriterOptions) (driver.Writer, error) {
	if err := f.suffer(ctx, true); err != nil {
		return nil, err
	}
	inner, give := context.WithCancel(ctx)
	w, err := f.objects.NewWriter(inner, key, &blob.WriterOptions{ContentType: contentType})
	if err != nil {
		give()
		return nil, err
	}
	return &writer{w, func() error { return f.suffer(ctx, true) }, give}, nil
}

func (f *failing) Copy(ctx context.Context, to, from string, _ *driver.CopyOptions) error {
	if err := f.suffer(ctx, true); err != nil {
		return err
	}
	return f.objects.Copy(ctx, to, from, nil)
}

func (f *failing) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if err := f.suffer(ctx, true); err != nil {
		return err
	}
	return f.objects.Delete(ctx, key)
}

func (f *failing) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errors.ErrUnsupported
}
