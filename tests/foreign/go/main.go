// Renders the Markdown of standard input as HTML, then uses what Go's runtime has: goroutines, channels, timers, the
// garbage collector, pipes, files, and a panic that is recovered.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// Sums of squares, each by a goroutine, in order.
func sums(goroutines int) []int {
	results := make(chan int)
	var group sync.WaitGroup
	for number := 0; number < goroutines; number++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			sum := 0
			for at := 0; at < 100*number; at++ {
				sum += at * at
				if at%50 == 0 {
					runtime.Gosched()
				}
			}
			results <- sum
		}(number)
	}
	go func() { group.Wait(); close(results) }()
	var all []int
	for sum := range results {
		all = append(all, sum)
	}
	sort.Ints(all)
	return all
}

// Bytes that passed a pipe of the system, compressed.
func throughPipe(text []byte) [32]byte {
	from, to, err := os.Pipe()
	check(err)
	go func() {
		zip := gzip.NewWriter(to)
		_, err := zip.Write(text)
		check(err)
		check(zip.Close())
		check(to.Close())
	}()
	zip, err := gzip.NewReader(from)
	check(err)
	back, err := io.ReadAll(zip)
	check(err)
	return sha256.Sum256(back)
}

// What is left after garbage: the length of a chain.
func collect() int {
	type node struct{ next *node }
	var kept *node
	for at := 0; at < 20000; at++ {
		fresh := &node{}
		if at%10 == 0 {
			fresh.next = kept
			kept = fresh
		}
	}
	runtime.GC()
	length := 0
	for ; kept != nil; kept = kept.next {
		length++
	}
	return length
}

func recovered() (why any) {
	defer func() { why = recover() }()
	var missing *int
	return *missing
}

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	check(err)
	var html bytes.Buffer
	check(goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert(text, &html))
	os.Stdout.Write(html.Bytes())
	fmt.Println(sums(20))
	fmt.Printf("%x\n", throughPipe(bytes.Repeat(text, 10)))
	fmt.Println(collect())
	begun := time.Now()
	select {
	case <-time.After(2 * time.Millisecond):
		fmt.Println("slept:", time.Since(begun) >= 2*time.Millisecond)
	}
	check(os.WriteFile("go.text", text, 0o644))
	back, err := os.ReadFile("go.text")
	check(err)
	check(os.Remove("go.text"))
	fmt.Println(bytes.Equal(back, text))
	fmt.Println(recovered())
}
