// Package docs has the pages for users, and tests that keep them true.
package docs

//go:generate go run ../internal/opstable -page ops.md
