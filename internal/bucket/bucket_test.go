package bucket

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestIsURL(t *testing.T) {
	for name, want := range map[string]bool{
		"s3://b/k": true, "file:///k": true, "x-1+y.z://": true,
		"": false, "/a/b": false, "a/b*": false, "://x": false, "1a://x": false, "A://x": false, "a b://x": false, "s3:/b": false,
	} {
		if IsURL(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestURLsAreSplit(t *testing.T) {
	for name, want := range map[string][2]string{ // bucket and key
		"s3://b/k":                        {"s3://b", "k"},
		"s3://b/f/k-*?region=x&y=z":       {"s3://b?region=x&y=z", "f/k-*"},
		"mem://b/a%20b/%3F":               {"mem://b", "a b/?"},
		"file:///a/b/k":                   {"file:///a/b", "k"},
		"file:///a/b*/k-[0-9]?metadata=x": {"file:///a?metadata=x", "b*/k-[0-9]"},
		"file:///k":                       {"file:///", "k"},
	} {
		a, err := parse(name, true)
		if err != nil || a.bucket.String() != want[0] || a.key != want[1] {
			t.Errorf("%s: bucket %s, key %s, error %v", name, a.bucket.String(), a.key, err)
		}
	}
	for _, name := range []string{"s3://b", "s3://b/", "s3://b/f/", "file:///", "s3://b/k#x", "s3://b/%zz", "s3://[/k"} {
		if _, err := parse(name, true); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The name of a listed object opens this object, for every key.
func TestNamesOfObjectsAreURLs(t *testing.T) {
	for _, pattern := range []string{"s3://b/x*?region=y", "file:///a/*"} {
		a, err := parse(pattern, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"k", "a b", "50%", "what?", "x#y", "*[", "ä"} {
			back, err := parse(a.name(key), false)
			if err != nil || back.key != key || back.bucket.String() != a.bucket.String() {
				t.Errorf("%s %q became %s: %+v, error %v", pattern, key, a.name(key), back, err)
			}
		}
	}
}

func TestBeside(t *testing.T) {
	for pattern, want := range map[string]string{
		"s3://b/train-*?r=x": "s3://b/_END?r=x", "s3://b/f/g/train": "s3://b/f/g/_END",
		"file:///a/b/*": "file:///a/b/_END", "file:///a/b*/c": "file:///a/_END",
	} {
		if got, err := Beside(pattern, "_END"); err != nil || got != want {
			t.Errorf("beside %s is %s, error %v", pattern, got, err)
		}
	}
}

// A URL with a slash too few is no folder. A folder of that name has its way to say so.
func TestPlacesThatMissASlash(t *testing.T) {
	for place, fine := range map[string]bool{"s3:/b/model": false, "file:/tmp/model": false, "s3://b/model": true, "./s3:/b": true, "model": true, "c:/model": true, "/a/s3:/b": true} {
		if err := CheckPlace(place); (err == nil) != fine {
			t.Errorf("%s: %v", place, err)
		}
	}
}
