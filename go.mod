module github.com/edl-go/edl

go 1.26
