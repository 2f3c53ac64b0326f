local words, text = {}, io.read("a")
for word in text:gmatch("%a+") do words[word] = (words[word] or 0) + 1 end
local names = {}
for word in pairs(words) do names[#names + 1] = word end
table.sort(names, function(a, b) return words[a] > words[b] or words[a] == words[b] and a < b end)
for at = 1, math.min(5, #names) do print(names[at], words[names[at]]) end
local numbers = coroutine.wrap(function() for at = 1, 5 do coroutine.yield(at ^ 2) end end)
for square in numbers do io.write(string.format("%.3f ", math.sqrt(square) / 3)) end
print(#arg, math.maxinteger // 7, 1e15 / 3, ("x"):rep(3, ","), pcall(error, "caught"))
local file = assert(io.open("lua.text", "w")); file:write(text); file:close()
print(#assert(io.open("lua.text")):read("a") == #text, os.remove("lua.text"), io.open("lua.text"))
collectgarbage(); print(collectgarbage("count") < 2000, os.time{year=2020, month=1, day=1, hour=12})
