// SPDX-License-Identifier: BSD-2-Clause
// Parses a JSON document, made by itself, into maps, vectors and strings, again and again: what a C++ service does.
//
// usage: json ROUNDS
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Value {
    std::string text; // of strings and, unparsed, of numbers
    std::vector<std::unique_ptr<Value>> items;
    std::map<std::string, std::unique_ptr<Value>> members;
};

// Objects, arrays, strings without escapes, and numbers: what document() makes.
class Parser {
public:
    explicit Parser(const std::string &text) : at(text.data()), end(text.data() + text.size()) {}

    std::unique_ptr<Value> value()
    {
        auto v = std::make_unique<Value>();
        switch (peek()) {
        case '{': members(*v); break;
        case '[': items(*v); break;
        case '"': v->text = string(); break;
        default: v->text = number();
        }
        return v;
    }

private:
    char peek() const
    {
        if (at == end)
            throw std::runtime_error("the document ends too early");
        return *at;
    }

    // Whether the character comes next; if so, goes past it.
    bool take(char c)
    {
        if (peek() != c)
            return false;
        at++;
        return true;
    }

    void need(char c)
    {
        if (!take(c))
            throw std::runtime_error(std::string("no ") + c);
    }

    void members(Value &v)
    {
        need('{');
        do {
            std::string key = string();
            need(':');
            v.members.emplace(std::move(key), value());
        } while (take(','));
        need('}');
    }

    void items(Value &v)
    {
        need('[');
        do {
            v.items.push_back(value());
        } while (take(','));
        need(']');
    }

    std::string string()
    {
        need('"');
        const char *start = at;
        while (peek() != '"')
            at++;
        return std::string(start, at++);
    }

    std::string number()
    {
        const char *start = at;
        while ((peek() >= '0' && peek() <= '9') || peek() == '.')
            at++;
        return std::string(start, at);
    }

    const char *at, *end;
};

static std::string document(unsigned orders)
{
    std::string text = "[";
    for (unsigned i = 0; i < orders; i++) {
        std::string n = std::to_string(i);
        text += (i ? ",{\"id\":" : "{\"id\":") + n + ",\"customer\":{\"name\":\"customer number " + n +
                "\",\"city\":\"Springfield\",\"country\":\"a country with a long name\"},\"lines\":[";
        for (unsigned line = 0; line <= i % 7; line++)
            text += (line ? ",{\"item\":\"item " : "{\"item\":\"item ") + std::to_string(i * line) +
                    "\",\"price\":12.5,\"tags\":[\"new\",\"on sale until further notice\"]}";
        text += "]}";
    }
    return text + "]";
}

int main(int argc, char **argv)
{
    const std::string text = document(10000);
    size_t orders = 0;
    for (int round = 0; round < (argc > 1 ? std::atoi(argv[1]) : 1); round++)
        orders += Parser(text).value()->items.size();
    std::cout << orders << '\n';
}
