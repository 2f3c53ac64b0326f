// What Go's network library has within one machine: HTTP over TCP, half-closed Unix sockets, deadlines, and a port where
// nobody listens.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// A server that answers with the path that it is asked for.
func serve() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(to http.ResponseWriter, from *http.Request) {
		io.WriteString(to, "path "+from.URL.Path)
	}))
	return listener
}

func get(address net.Addr, path int) {
	response, err := http.Get(fmt.Sprintf("http://%s/%d", address, path))
	check(err)
	body, err := io.ReadAll(response.Body)
	check(err)
	fmt.Println(response.Status, string(body))
}

// Sends lines to a Unix socket that sends them back, until this end is closed for writing.
func echo() {
	const lines = 20000
	listener, err := net.Listen("unix", "echo.sock")
	check(err)
	echoed := make(chan int64)
	go func() {
		end, err := listener.Accept()
		check(err)
		count, err := io.Copy(end, end)
		check(err)
		check(end.Close())
		echoed <- count
	}()
	end, err := net.Dial("unix", "echo.sock")
	check(err)
	go func() {
		for line := 0; line < lines; line++ {
			fmt.Fprintf(end, "line %d of a text\n", line)
		}
		check(end.(*net.UnixConn).CloseWrite())
	}()
	scanner := bufio.NewScanner(end)
	same := 0
	for line := 0; scanner.Scan(); line++ {
		if scanner.Text() == fmt.Sprintf("line %d of a text", line) {
			same++
		}
	}
	check(scanner.Err())
	fmt.Println("echoed", <-echoed, "bytes,", same, "lines")
	check(listener.Close())
	_, err = os.Stat("echo.sock")
	fmt.Println("name removed:", os.IsNotExist(err))
}

func main() {
	listener := serve()
	for path := 0; path < 5; path++ {
		get(listener.Addr(), path)
	}
	echo()
	_, err := net.DialTimeout("tcp", "127.0.0.1:1", time.Second)
	fmt.Println(err)
	end, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	check(end.SetReadDeadline(time.Now().Add(5 * time.Millisecond)))
	_, err = end.Read(make([]byte, 1))
	fmt.Println("timeout:", err.(net.Error).Timeout())
}
